package lock

import (
	"slices"
	"time"
)

// UnionResult are the locks that an owner obtained of those it asked for.
type UnionResult struct {
	// Locks is the locks newly obtained, the last one first. A lock that was asked for twice may be here twice.
	Locks []Lock
	// Changed is the owner, if anything was obtained.
	Changed []Owner
}

// OpportunisticUnion tries the items one by one in lock order, takes those that are free, and skips the others
// (opportunisticLockUnion of locks.md 1.6). It ignores items that the owner already holds in that mode or a stronger
// one. An owner with a pending request gets nothing.
func (s *State) OpportunisticUnion(now time.Time, o Owner, items []Item) UnionResult {
	return s.GuardedOpportunisticUnion(now, o, items, 0)
}

// GuardedOpportunisticUnion is OpportunisticUnion, if at least countMin locks are obtained; otherwise the owner gets
// nothing (guardedOpportunisticLockUnion of locks.md 1.6).
func (s *State) GuardedOpportunisticUnion(now time.Time, o Owner, items []Item, countMin int) UnionResult {
	h := s.table.holder(o)
	defer s.table.forget(h)
	if h.pending != nil {
		return UnionResult{}
	}
	s.beginPass(now)
	got := s.takeFree(h, items, countMin)
	if len(got) == 0 {
		return UnionResult{}
	}
	return UnionResult{Locks: got, Changed: []Owner{o}}
}

// takeFree gives an owner those of the items that are free and that it does not hold, if they are at least countMin; otherwise it
// changes nothing. The locks that it gives are in the order of UnionResult.
func (s *State) takeFree(h *holder, items []Item, countMin int) []Lock {
	var wanted, before []Item
	for _, i := range items {
		if h.mode(i.Lock) < i.Mode {
			wanted = append(wanted, i)
		}
	}
	slices.SortFunc(wanted, Item.Compare)
	var got []Lock
	for _, i := range wanted {
		was := Item{i.Lock, h.mode(i.Lock)}
		if !s.tryGrant(h, i) {
			continue
		}
		got = append(got, i.Lock)
		before = append(before, was)
	}
	slices.Reverse(got)
	if len(got) >= countMin {
		return got
	}
	// No request is tried again: all were blocked before the first step, and the state is the same as then.
	for k := len(before) - 1; k >= 0; k-- {
		s.table.apply(h, Request{before[k]}, func(*waitPoint) {})
	}
	return nil
}

// tryGrant grants one lock of a union to the owner, unless the owner may not have it or another owner or waiting request is in the way.
// It reports whether the owner has the lock.
func (s *State) tryGrant(h *holder, i Item) bool {
	req := Request{i}
	if h.satisfies(req) {
		return true
	}
	r := &request{Pending: Pending{Owner: h.owner, Request: req}, holder: h, arrival: s.arrivalCount}
	if s.table.check(h, req) != nil || s.blockingQueue(r) != nil {
		return false
	}
	s.apply(h, req)
	return true
}
