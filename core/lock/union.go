package lock

import (
	"slices"
	"time"
)

// UnionResult is what an owner has got of the locks that it asked for.
type UnionResult struct {
	// Locks is the locks newly obtained, the last one first. A lock that was asked for twice may be here twice.
	Locks []Lock
	// Changed is the owner, if anything was obtained.
	Changed []Owner
}

// OpportunisticUnion takes, one by one in lock order, what it can get of the items, and skips what it cannot
// (opportunisticLockUnion of locks.md 1.6). Items that the owner holds in that mode, or more, are left out. An owner
// whose request waits gets nothing.
func (s *State) OpportunisticUnion(now time.Time, o Owner, items []Item) UnionResult {
	return s.GuardedOpportunisticUnion(now, o, items, 0)
}

// GuardedOpportunisticUnion is OpportunisticUnion, if at least so many locks are obtained; otherwise the owner gets
// nothing (guardedOpportunisticLockUnion of locks.md 1.6).
func (s *State) GuardedOpportunisticUnion(now time.Time, o Owner, items []Item, countMin int) UnionResult {
	h := s.table.holder(o)
	defer s.table.forget(h)
	if h.pending != nil {
		return UnionResult{}
	}
	s.beginPass(now)
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
	switch {
	case len(got) == 0:
		return UnionResult{}
	case len(got) >= countMin:
		return UnionResult{Locks: got, Changed: []Owner{o}}
	}
	// No waiter is woken: all of them were blocked before the first step, and the state is the same again.
	for k := len(before) - 1; k >= 0; k-- {
		s.table.apply(h, Request{before[k]}, func(*waitPoint) {})
	}
	return UnionResult{}
}

// tryGrant grants a single item, if that is possible at once.
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
