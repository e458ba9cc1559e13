package locks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
)

// Principal is a job, or a client that goes by a name: a holder of locks or one who waits. As
// JSON of this program it is the job's id or the name.
type Principal struct {
	Job  int64
	name string // if named
	// named tells a client by a name from a job; a name of digits is no job.
	named bool
}

// String is the form for people.
func (p Principal) String() string {
	if p.named {
		return term.Visible(p.name)
	}
	return fmt.Sprintf("job %d", p.Job)
}

func (p Principal) MarshalJSON() ([]byte, error) {
	if p.named {
		return cli.EncodeJSON(p.name)
	}
	return json.Marshal(p.Job)
}

func (p *Principal) UnmarshalJSON(data []byte) error {
	*p = Principal{}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		p.named = true
		return json.Unmarshal(data, &p.name)
	}
	return json.Unmarshal(data, &p.Job)
}

// compare orders jobs by id, before clients by name.
func (p Principal) compare(v Principal) int {
	if p.named != v.named {
		if v.named {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(p.Job, v.Job), strings.Compare(p.name, v.name))
}

// holder is a Principal as the lock monitor gives it: a string that contains the JSON text of it
// (queue.md 2.6).
type holder struct{ Principal }

func (h *holder) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if json.Unmarshal([]byte(text), &h.Principal) != nil {
		h.Principal = Principal{named: true, name: text} // what it is, we do not know; it has a lock
	}
	return nil
}

// lockOwner is the whole identity of an owner of locks: [who, livelock, pid] on the wire.
// A job that is started again is another owner.
type lockOwner struct {
	Who      Principal `json:"owner"`
	Livelock string    `json:"livelock"`
	PID      int       `json:"pid"`
}

func (o *lockOwner) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 3 {
		return errors.New("an owner of locks is not [who, livelock, pid]")
	}
	return client.Scan(parts, &o.Who, &o.Livelock, &o.PID)
}

// Item is a lock and a mode, a pair on the wire.
type Item struct {
	Lock string `json:"lock"`
	Mode string `json:"mode"`
}

func (i *Item) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return errors.New("a request for a lock is not [lock, mode]")
	}
	return client.Scan(parts, &i.Lock, &i.Mode)
}

func (i Item) String() string {
	return fmt.Sprintf("%s (%s)", term.Visible(i.Lock), term.Visible(i.Mode))
}
