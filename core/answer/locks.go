package answer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"lockstep/core/rawjson"
)

// Locks answers LockstepLocks: the locks with their owners, the waits for locks, and the waits for the end of jobs.
type Locks = LocksOf[[]Lock, []LockWait, []JobWait]

// LocksOf is Locks with parts of any form: the gateway joins parts that the lock manager
// and the scheduler have encoded.
type LocksOf[L, W, J any] struct {
	Jobs  J `json:"jobs"`
	Locks L `json:"locks"`
	Waits W `json:"waits"`
}

// Lock is a lock in the lock monitor (queue.md 2.6). An owner is a string that contains
// the JSON text of a Principal.
type Lock struct {
	Name    string       `json:"name"`
	Mode    string       `json:"mode,omitempty"` // none if no owner holds the lock itself
	Owners  []string     `json:"owners"`
	Pending []LockWaiter `json:"pending"`
}

// Waiters are the owners that wait for the lock: those that the lock manager knows, and those of waits that ask for it, by
// the order of waits. Each is there once.
func (l Lock) Waiters(waits []LockWait) []LockWaiter {
	all := append([]LockWaiter(nil), l.Pending...)
	known := map[LockWaiter]bool{}
	for _, p := range all {
		known[p] = true
	}
	for _, w := range waits {
		for _, item := range w.Request {
			if item.Lock != l.Name {
				continue
			}
			who, err := w.Owner.Who.MarshalJSON()
			if p := (LockWaiter{Mode: item.Mode, Owner: string(who)}); err == nil && !known[p] {
				known[p] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// IsBeside reports whether nobody holds or requests the lock exclusively or alone: all who share it have or want another one, too. The big
// lock of Ganeti, which nearly every job shares, is shown only if it is not beside the others.
func (l Lock) IsBeside(all []Lock) bool {
	alone := map[string]bool{}
	for _, owner := range l.Owners {
		alone[owner] = true
	}
	for _, w := range l.Pending {
		alone[w.Owner] = true
		if w.Mode == "exclusive" {
			return false
		}
	}
	for _, other := range all {
		if other.Name == l.Name {
			continue
		}
		for _, owner := range other.Owners {
			delete(alone, owner)
		}
		for _, w := range other.Pending {
			delete(alone, w.Owner)
		}
	}
	return l.Mode != "exclusive" && len(alone) == 0
}

// LockWaiter is an owner that waits for a lock.
type LockWaiter struct {
	Mode  string `json:"mode"`
	Owner string `json:"owner"`
}

// LockWait is an owner that waits, with the request, its time and the blockers. Locks has the conflicting locks of each
// blocker. An empty list means that the blocker has an overdue request, which must not be overtaken, or has just been
// started and takes them. A job without a livelock has no process: it is not started because of the locks, and Seconds is
// the time since its submission.
type LockWait struct {
	Owner    LockOwner   `json:"owner"`
	Priority int         `json:"priority"`
	Request  []LockItem  `json:"request"`
	Blockers []LockOwner `json:"blockers"`
	Locks    [][]string  `json:"locks"`
	Seconds  float64     `json:"seconds"`
	Withheld bool        `json:"withheld,omitempty"` // its job is paused, held or rejected, or has no run slot
}

// JobWait is a job that waits for the end of other jobs.
type JobWait struct {
	ID int64        `json:"id"`
	On []AwaitedJob `json:"on"`
}

// AwaitedJob is a job that is waited for. No status means success or error.
type AwaitedJob struct {
	ID       int64    `json:"id"`
	Statuses []string `json:"statuses"`
	// Process: a process of the job that waits has asked for the end, whatever its status. Otherwise an opcode depends on it.
	Process bool `json:"process,omitempty"`
}

// Principal is an owner of locks or a waiter: a job, or a client with a name. On the wire it is the job's id or the
// name.
type Principal struct {
	Job  int64
	Name string // if named
	// Named marks a client with a name. A name of digits is not a job.
	Named bool
}

// MarshalJSON writes the id of a job as a number, or the name of another client as a string.
func (p Principal) MarshalJSON() ([]byte, error) {
	if p.Named {
		return []byte(rawjson.Quote(p.Name)), nil
	}
	return strconv.AppendInt(nil, p.Job, 10), nil
}

// UnmarshalJSON reads the id of a job, which is a number, or the name of another client, which is a string.
func (p *Principal) UnmarshalJSON(data []byte) error {
	*p = Principal{}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		p.Named = true
		return json.Unmarshal(data, &p.Name)
	}
	return json.Unmarshal(data, &p.Job)
}

// Compare orders jobs by id, before clients by name.
func (p Principal) Compare(q Principal) int {
	if p.Named != q.Named {
		if q.Named {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(p.Job, q.Job), strings.Compare(p.Name, q.Name))
}

// LockOwner is the complete identity of an owner of locks: [name or job id, livelock, pid] on the wire. A job that is
// started again is a different owner.
type LockOwner struct {
	Who      Principal
	Livelock string
	PID      int
}

// MarshalJSON writes [who, livelock, pid].
func (o LockOwner) MarshalJSON() ([]byte, error) {
	who, err := o.Who.MarshalJSON()
	return fmt.Appendf(nil, "[%s,%s,%d]", who, rawjson.Quote(o.Livelock), o.PID), err
}

// UnmarshalJSON reads [who, livelock, pid].
func (o *LockOwner) UnmarshalJSON(data []byte) error {
	return readParts(data, "an owner of locks is not [who, livelock, pid]", &o.Who, &o.Livelock, &o.PID)
}

// LockItem is a lock and a mode, a pair on the wire.
type LockItem struct{ Lock, Mode string }

// MarshalJSON writes [lock, mode].
func (i LockItem) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%s,%s]", rawjson.Quote(i.Lock), rawjson.Quote(i.Mode)), nil
}

// UnmarshalJSON reads [lock, mode].
func (i *LockItem) UnmarshalJSON(data []byte) error {
	return readParts(data, "a request for a lock is not [lock, mode]", &i.Lock, &i.Mode)
}

// readParts decodes a list with one part for each target. malformed names the expected form in the error.
func readParts(data []byte, malformed string, targets ...any) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != len(targets) {
		return errors.New(malformed)
	}
	for i, target := range targets {
		if err := json.Unmarshal(parts[i], target); err != nil {
			return fmt.Errorf("part %d of %s: %w", i+1, data, err)
		}
	}
	return nil
}
