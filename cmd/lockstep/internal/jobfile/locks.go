package jobfile

import (
	"encoding/json"
	"fmt"
	"strings"

	"lockstep/cmd/internal/doctree"
	"lockstep/core/demand"
	"lockstep/core/lock"
)

// Lock is a lock as the user names it. The daemon receives the name as it was given, because it refuses a
// short name that is also a node or an instance.
type Lock struct {
	lock.Item
	name string
}

// MarshalJSON writes [name, mode], with the name as the user has written it.
func (l Lock) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]string{l.name, l.Mode.String()})
}

// ParseLock reads NAME or NAME:MODE; without a mode the lock is exclusive. A name with a colon needs a mode, so that a mistyped mode
// does not become part of the name. The error begins with subject, which says where the text is from.
func ParseLock(subject, text string) (Lock, error) {
	name, mode := text, lock.Exclusive
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		var err error
		name = text[:i]
		if mode, err = lock.ParseMode(text[i+1:]); err != nil || mode == lock.None {
			return Lock{}, fmt.Errorf("%s %s: the mode of a lock is shared or exclusive, not %q", subject, text, text[i+1:])
		}
	}
	full, err := lock.Meant(name)
	if err != nil {
		return Lock{}, fmt.Errorf("%s %s: %w", subject, text, err)
	}
	parsed, ok := demand.ParseLockName(full)
	if !ok {
		return Lock{}, fmt.Errorf("%s: a lock is a name of letters, digits, dots, underscores, hyphens and slashes, like deploy or db/main; "+
			"or cluster/BGL, or one of instance/, nodegroup/, node/, node-res/ and network/ "+
			"followed by a name or by [lockset]; not %q",
			subject, name)
	}
	return Lock{lock.Item{Lock: parsed, Mode: mode}, name}, nil
}

// locks reads the key "lock" of a command: a lock or a list of them. It returns the parameter "locks".
func (r *reader) locks(from doctree.Node) doctree.Node {
	elements := []doctree.Node{from}
	if from.Kind == doctree.List {
		elements = from.Values
	}
	result := doctree.Node{Kind: doctree.List, At: from.At}
	met := map[lock.Lock]bool{}
	for _, element := range elements {
		text, isText := element.Scalar.(string)
		if !isText {
			r.wrong(element, "a lock is a name, like deploy or deploy:shared, not %s", element.Describe())
			return invalid(from.At)
		}
		one, err := ParseLock("lock", text)
		switch {
		case err != nil:
			r.addf(element.At, "%v", err)
			return invalid(from.At)
		case met[one.Lock]:
			r.addf(element.At, "lock names %s twice", one.Lock)
			return invalid(from.At)
		}
		met[one.Lock] = true
		result.Values = append(result.Values, doctree.Node{Kind: doctree.List, At: element.At,
			Values: []doctree.Node{{Scalar: one.name}, {Scalar: one.Mode.String()}}})
	}
	return result
}
