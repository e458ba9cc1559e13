package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// who is a job, or a client that goes by a name: a holder of locks or one who waits. As
// JSON of this program it is the job's id or the name.
type who struct {
	job  int64
	name string // if named
	// named tells a client by a name from a job; a name of digits is no job.
	named bool
}

// String is the form for people.
func (w who) String() string {
	if w.named {
		return visible(w.name)
	}
	return fmt.Sprintf("job %d", w.job)
}

func (w who) MarshalJSON() ([]byte, error) {
	if w.named {
		return encodeJSON(w.name)
	}
	return json.Marshal(w.job)
}

func (w *who) UnmarshalJSON(data []byte) error {
	*w = who{}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		w.named = true
		return json.Unmarshal(data, &w.name)
	}
	return json.Unmarshal(data, &w.job)
}

// compare orders jobs by id, before clients by name.
func (w who) compare(v who) int {
	if w.named != v.named {
		if v.named {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(w.job, v.job), strings.Compare(w.name, v.name))
}

// holder is who as the lock monitor gives it: a string that contains the JSON text of it
// (queue.md 2.6).
type holder struct{ who }

func (h *holder) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if json.Unmarshal([]byte(text), &h.who) != nil {
		h.who = who{named: true, name: text} // what it is, we do not know; it has a lock
	}
	return nil
}

// lockOwner is the whole identity of an owner of locks: [who, livelock, pid] on the wire.
// A job that is started again is another owner.
type lockOwner struct {
	Who      who    `json:"owner"`
	Livelock string `json:"livelock"`
	PID      int    `json:"pid"`
}

func (o *lockOwner) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 3 {
		return errors.New("an owner of locks is not [who, livelock, pid]")
	}
	return scan(parts, &o.Who, &o.Livelock, &o.PID)
}

// lockItem is a lock and a mode, a pair on the wire.
type lockItem struct {
	Lock string `json:"lock"`
	Mode string `json:"mode"`
}

func (i *lockItem) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return errors.New("a request for a lock is not [lock, mode]")
	}
	return scan(parts, &i.Lock, &i.Mode)
}

func (i lockItem) String() string { return fmt.Sprintf("%s (%s)", visible(i.Lock), visible(i.Mode)) }

// enumerate joins words as a sentence does: "a", "a and b", "a, b and c".
func enumerate(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// firstFew joins at most so many words with commas, and says how many more there are.
func firstFew(words []string, most int) string {
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}
