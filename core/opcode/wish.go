package opcode

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/config"
	"lockstep/core/lock"
)

// The parameters with which an opcode says itself which locks it wants.
const (
	locksKey = "locks"
	anyOfKey = "opportunistic_locks"
	countKey = "opportunistic_count"
)

// lockWords says what parseLockName accepts.
const lockWords = "the name of a lock: cluster/BGL, or one of instance/, nodegroup/, node/, node-res/ and network/ followed by a name, " +
	"or by [lockset] for all of its kind"

// parseLockName finds the lock that an opcode may name: not that of the configuration, which is held for the moment of a
// change alone, and of level cluster only the one that everybody uses.
func parseLockName(name string) (lock.Lock, bool) {
	l, err := lock.ParseLock(name)
	_, member, _ := strings.Cut(name, "/")
	return l, err == nil && member != "" && l.Level() != lock.Config && (l.Level() != lock.Cluster || l == lock.BGL)
}

func isLockName(v json.RawMessage) bool {
	_, ok := parseLockName(string(unquoted(v)))
	return ok
}

// wish is a lock that an opcode wants, under the name that it uses.
type wish struct {
	name string
	mode lock.Mode
}

// wishes is the content of a parameter: a list of [name, "shared" or "exclusive"].
func (g *given) wishes(param string) []wish {
	var all []wish
	for pair := range elements(g.value(param)) {
		w := wish{mode: lock.Shared}
		first := true
		for part := range elements(pair) {
			if first {
				w.name = string(unquoted(part))
			} else if string(part) == `"exclusive"` {
				w.mode = lock.Exclusive
			}
			first = false
		}
		all = append(all, w)
	}
	return all
}

// commandNeeds is what OP_RUN_COMMAND says that it needs.
func commandNeeds(g *given) (lock.Needs, *Invalid) {
	count := 1
	if v := g.value(countKey); v != nil {
		n, _ := parseInteger(v)
		count = int(min(n, 1<<30))
	}
	var n lock.Needs
	var bad *Invalid
	if n.Request, bad = g.settleParam(locksKey); bad != nil {
		return lock.Needs{}, bad
	}
	if n.AnyOf, bad = g.settleParam(anyOfKey); bad != nil {
		return lock.Needs{}, bad
	}
	if len(n.AnyOf) > 0 {
		n.Count = count
	}
	return n, checkOpportunity(&n, count)
}

// checkOpportunity makes sure that the opportunistic locks can be had.
func checkOpportunity(n *lock.Needs, count int) *Invalid {
	switch {
	case len(n.AnyOf) == 0 && count == 1:
		return nil
	case len(n.AnyOf) == 0:
		return refused(countKey, "it says how many of "+anyOfKey+" are needed at least, but there are none of these: give some, or leave it out")
	case count < 1 || count > len(n.AnyOf):
		return refused(countKey, "of "+strconv.Itoa(len(n.AnyOf))+" different locks in "+anyOfKey+" "+strconv.Itoa(count)+
			" cannot be obtained: give more locks, or want fewer")
	}
	level := n.AnyOf[0].Lock.Level()
	for _, i := range n.AnyOf {
		switch {
		case i.Lock.Level() == lock.Cluster || i.Lock.IsGroup():
			return refused(anyOfKey, i.Lock.String()+" is no choice: name the locks of which some suffice, and put what is needed in any case into "+locksKey)
		case i.Lock.Level() != level:
			return refused(anyOfKey, "it has locks of level "+level.String()+" and of level "+i.Lock.Level().String()+": they must be of one level")
		}
	}
	for _, i := range n.Request {
		if i.Lock.Level() == level {
			return refused(anyOfKey, locksKey+" has "+i.Lock.String()+", which is of level "+level.String()+
				", too: the locks of a level are all needed or all opportunistic")
		}
	}
	return nil
}

func refused(param, text string) *Invalid {
	return &Invalid{Param: param, Text: "Can't parse value for '" + param + "': " + text}
}

// settleParam gives the locks of a parameter. One that it names twice must be wanted in one mode: nobody could tell which
// was meant.
func (g *given) settleParam(param string) ([]lock.Item, *Invalid) {
	all := g.wishes(param)
	if len(all) == 0 {
		return nil, nil
	}
	modes := make(map[string]lock.Mode, len(all))
	for _, w := range all {
		if before, named := modes[w.name]; named && before != w.mode {
			return nil, refused(param, "it has "+quoted(w.name)+" both shared and exclusive: name each lock once")
		}
		modes[w.name] = w.mode
	}
	return settle(param, g.known, all)
}

// settle gives the locks that are wanted, in lock order. If several names turn out to be of one lock, the strongest of the
// modes includes the others.
func settle(param string, known *config.Resources, all []wish) ([]lock.Item, *Invalid) {
	if len(all) == 0 {
		return nil, nil
	}
	items := make([]lock.Item, 0, len(all))
	for _, w := range all {
		l, ok := parseLockName(lockName(known, w.name))
		if !ok {
			return nil, refused(param, "want "+lockWords+", found "+quoted(w.name))
		}
		items = append(items, lock.Item{Lock: l, Mode: w.mode})
	}
	slices.SortFunc(items, func(a, b lock.Item) int { return a.Lock.Compare(b.Lock) })
	settled := items[:1]
	for _, i := range items[1:] {
		if last := &settled[len(settled)-1]; last.Lock == i.Lock {
			last.Mode = max(last.Mode, i.Mode)
		} else {
			settled = append(settled, i)
		}
	}
	return settled, nil
}

// lockName puts UUIDs in the place of the names by which people know things. Locks of things that the cluster does not
// know keep their names: there is a lock for everything.
func lockName(known *config.Resources, name string) string {
	level, member, _ := strings.Cut(name, "/")
	switch level {
	case "nodegroup":
		member = groupLock(known, member)
	case "node", "node-res":
		member = nodeLock(known, member)
	case "network":
		member = networkLock(known, member)
	default:
		return name
	}
	return level + "/" + member
}
