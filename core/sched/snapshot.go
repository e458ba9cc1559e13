package sched

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// First is the first max candidates in the present order, also those that limits or locks keep from starting. It looks at
// each bucket once, and at few groups and candidates beyond those that it returns.
func (s *State) First(max int, now time.Time) []job.ID {
	s.refresh(now)
	f := s.newFrontier(func(int32) bool { return true })
	var ids []job.ID
	for len(ids) < max {
		at, more := f.pop()
		if !more {
			break
		}
		ids = append(ids, at.order.id)
		f.expand(at)
	}
	return ids
}

// OwnerLocks is the locks of an owner, as SetOwnerLocks took them.
type OwnerLocks struct {
	Owner   lock.Owner
	Held    []lock.Item
	Pending lock.Request
}

// AllLocks is the locks of all owners, by owner. In other orders than Expected it is empty.
func (s *State) AllLocks() []OwnerLocks {
	if s.expected == nil {
		return nil
	}
	var all []OwnerLocks
	for _, o := range slices.SortedFunc(maps.Keys(s.expected.owners), lock.Owner.Compare) {
		if p := s.expected.owners[o]; len(p.held)+len(p.pending) > 0 {
			all = append(all, OwnerLocks{o, p.held, p.pending})
		}
	}
	return all
}

// Blockers are the owners whose locks keep a job from those that it declares, in the order Expected.
func (s *State) Blockers(id job.ID, d lock.Declaration) []lock.Owner {
	if s.expected == nil {
		return nil
	}
	return s.expected.view.Blockers(jobOwnerKey(id), d.Request())
}
