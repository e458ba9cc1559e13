package lock

import "slices"

// A lock has four wait points: they list owners, and the requests that these block wait there. An item conflicts with
// an owner if and only if the owner is at one of the points that visitConflicts visits for the item. An owner is at
// the points that visitOwnerPoints visits for what it holds. These two functions are the table of blockers of locks.md
// 1.5.
const (
	atLock             = iota // owners of the lock itself
	atLockExclusive           // exclusive owners of the lock itself
	atMembers                 // owners of locks that imply it
	atMembersExclusive        // exclusive owners of such locks

	pointCount
)

// lockEntry has all that the table knows of one lock: who holds it and who waits for it, at each of its points.
type lockEntry struct {
	lock   Lock
	points [pointCount]waitPoint
}

// waitPoint is one of the points of a lock.
//
// Invariant: owners counts how many locks put an owner here (one, at a point atLock), and is never zero. reservations
// are sorted by arrival, and each of their requests is overdue.
type waitPoint struct {
	entry        *lockEntry
	owners       map[*holder]int
	waiters      queue
	reservations []*request
}

func (t *Table) entry(l Lock) *lockEntry {
	e := t.locks[l]
	if e == nil {
		e = &lockEntry{lock: l}
		for i := range e.points {
			e.points[i].entry = e
			e.points[i].waiters.point = &e.points[i]
		}
		t.locks[l] = e
	}
	return e
}

// dropUnused removes the entry of a lock that nobody holds, waits for or reserves, so that the table has entries of locks in use only.
func (t *Table) dropUnused(e *lockEntry) {
	for i := range e.points {
		if s := &e.points[i]; len(s.owners)+s.waiters.heap.Len()+len(s.reservations) > 0 {
			return
		}
	}
	delete(t.locks, e.lock)
}

// visitOwnerPoints visits the points at which an owner of the lock in this mode is.
func (t *Table) visitOwnerPoints(i Item, visit func(*waitPoint)) {
	e := t.entry(i.Lock)
	visit(&e.points[atLock])
	if i.Mode == Exclusive {
		visit(&e.points[atLockExclusive])
	}
	for _, g := range t.implied(i.Lock) {
		e := t.entry(g)
		visit(&e.points[atMembers])
		if i.Mode == Exclusive {
			visit(&e.points[atMembersExclusive])
		}
	}
}

// visitConflicts visits the points whose owners conflict with an item, until visit returns false. A release conflicts
// with none.
func (t *Table) visitConflicts(i Item, visit func(*waitPoint) bool) {
	own, below := atLock, atMembers
	switch i.Mode {
	case None:
		return
	case Shared:
		own, below = atLockExclusive, atMembersExclusive
	}
	if e := t.locks[i.Lock]; e != nil && (!visit(&e.points[own]) || !visit(&e.points[below])) {
		return
	}
	for _, g := range t.implied(i.Lock) {
		if e := t.locks[g]; e != nil && !visit(&e.points[own]) {
			return
		}
	}
}

// moveOwner moves an owner from the points of one mode to those of another. It calls onLeave for every point that the
// owner has left.
func (t *Table) moveOwner(h *holder, l Lock, from, to Mode, onLeave func(*waitPoint)) {
	if to > None {
		t.visitOwnerPoints(Item{l, to}, func(s *waitPoint) {
			if s.owners == nil {
				s.owners = map[*holder]int{}
			}
			s.owners[h]++
		})
	}
	if from == None {
		return
	}
	t.visitOwnerPoints(Item{l, from}, func(s *waitPoint) {
		if s.owners[h]--; s.owners[h] == 0 {
			delete(s.owners, h)
			onLeave(s)
		}
	})
	t.dropUnusedAll(l)
}

func (t *Table) dropUnusedAll(l Lock) {
	t.dropUnused(t.locks[l])
	for _, g := range t.implied(l) {
		if e := t.locks[g]; e != nil {
			t.dropUnused(e)
		}
	}
}

// blocks reports whether an owner other than h is at the point.
func (s *waitPoint) blocks(h *holder) bool {
	if len(s.owners) == 1 {
		return s.owners[h] == 0
	}
	return len(s.owners) > 1
}

// blockedAt is a point at which the request is blocked, nil if there is none.
func (t *Table) blockedAt(h *holder, req Request) *waitPoint {
	var found *waitPoint
	for _, i := range req {
		t.visitConflicts(i, func(s *waitPoint) bool {
			if s.blocks(h) {
				found = s
			}
			return found == nil
		})
		if found != nil {
			break
		}
	}
	return found
}

// blockers is every other owner that conflicts with the request, in owner order.
func (t *Table) blockers(h *holder, req Request) []Owner {
	found := map[*holder]struct{}{}
	for _, i := range req {
		t.visitConflicts(i, func(s *waitPoint) bool {
			for other := range s.owners {
				if other != h {
					found[other] = struct{}{}
				}
			}
			return true
		})
	}
	if len(found) == 0 {
		return nil
	}
	owners := make([]Owner, 0, len(found))
	for other := range found {
		owners = append(owners, other.owner)
	}
	slices.SortFunc(owners, Owner.Compare)
	return owners
}
