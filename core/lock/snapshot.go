package lock

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Holding is the locks that one owner holds, in lock order. It is never empty.
type Holding struct {
	Owner Owner
	Locks []Item
}

// Snapshot is a State without the age of requests: holdings in owner order, and pending requests in pending order.
type Snapshot struct {
	Holdings []Holding
	Pending  []Pending
}

// Snapshot is the State as a value. It shares the lists of requests, which are never changed.
func (s *State) Snapshot() Snapshot {
	var snap Snapshot
	for _, o := range s.table.Holders() {
		snap.Holdings = append(snap.Holdings, Holding{o, s.table.Held(o)})
	}
	snap.Pending = s.Pending()
	return snap
}

// RestoreResult is what happened to a snapshot's pending requests that do not wait again. Both lists are empty for the
// snapshot of a State, unless a journal was cut off before a grant.
type RestoreResult struct {
	Granted []Owner // their requests were granted; they have not been notified
	Dropped []Owner // their requests are invalid now
}

// StatusError is the error for holdings that conflict with each other.
type StatusError struct {
	Owner    Owner
	Blockers []Owner // the owners that hold what the owner should hold
	Err      error   // if there are no blockers: why the owner may not hold its locks
}

func (e *StatusError) Error() string {
	text := "Inconsistent lock status for " + e.Owner.String()
	if e.Err != nil {
		return text + ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s: blocked by %v", text, e.Blockers)
}

func (e *StatusError) Unwrap() error { return e.Err }

// errDuplicateOwner is the error for an owner that a snapshot contains twice.
var errDuplicateOwner = errors.New("more than one entry")

// Restore makes a State of a snapshot (locks.md 1.8, "Restart"). It requests each owner's locks at once, and then repeats the pending
// requests in pending order. Their age begins now. One that is granted at once is in Granted, one that cannot be repeated in Dropped:
// neither is an error. The error is a *StatusError.
func Restore(settings Settings, now time.Time, snap Snapshot) (*State, RestoreResult, error) {
	s := New(settings)
	var restored RestoreResult
	for _, h := range snap.Holdings {
		if s.table.holders[h.Owner] != nil {
			return nil, restored, &StatusError{Owner: h.Owner, Err: errDuplicateOwner}
		}
		if blockers, err := s.table.Update(h.Owner, h.Locks); err != nil || len(blockers) > 0 {
			return nil, restored, &StatusError{h.Owner, blockers, err}
		}
	}
	pending := slices.Clone(snap.Pending)
	slices.SortFunc(pending, func(a, b Pending) int { return a.Compare(&b) })
	seen := make(map[Owner]bool, len(pending))
	for _, p := range pending {
		if seen[p.Owner] {
			return nil, restored, &StatusError{Owner: p.Owner, Err: errDuplicateOwner}
		}
		seen[p.Owner] = true
		update, err := s.UpdateWaiting(now, p)
		switch {
		case err != nil:
			restored.Dropped = append(restored.Dropped, p.Owner)
		case update.Granted:
			restored.Granted = append(restored.Granted, p.Owner)
		}
		restored.Granted = append(restored.Granted, update.Notify...)
	}
	return s, restored, nil
}
