package lock

import "slices"

// A lock has four spots: places where owners are, and where the requests that these block wait. An item conflicts with
// an owner if and only if the owner is at one of the spots that conflicts visits for the item; owners are at the spots
// that places visits for what they hold. These two functions are the table of blockers of locks.md 1.5.
const (
	direct           = iota // owners of the lock itself
	directExclusive         // those of them who hold it exclusively
	members                 // owners of locks that imply it
	membersExclusive        // those of them who hold such a lock exclusively

	spots
)

// entry is all there is about one lock.
type entry struct {
	lock  Lock
	spots [spots]spot
}

// spot is one place of a lock.
//
// Invariant: owners counts how many locks put an owner here (one, at a direct spot), and is never zero; claims are
// sorted by arrival, and each of their requests is overdue.
type spot struct {
	entry  *entry
	owners map[*holder]int
	queue  queue
	claims []*request
}

func (t *Table) entry(l Lock) *entry {
	e := t.locks[l]
	if e == nil {
		e = &entry{lock: l}
		for i := range e.spots {
			e.spots[i].entry = e
			e.spots[i].queue.spot = &e.spots[i]
		}
		t.locks[l] = e
	}
	return e
}

// tidy drops an entry that nothing refers to any more.
func (t *Table) tidy(e *entry) {
	for i := range e.spots {
		if s := &e.spots[i]; len(s.owners)+len(s.queue.heap.items)+len(s.claims) > 0 {
			return
		}
	}
	delete(t.locks, e.lock)
}

// places visits the spots at which an owner of the lock in this mode is.
func (t *Table) places(i Item, visit func(*spot)) {
	e := t.entry(i.Lock)
	visit(&e.spots[direct])
	if i.Mode == Exclusive {
		visit(&e.spots[directExclusive])
	}
	for _, g := range t.implied(i.Lock) {
		e := t.entry(g)
		visit(&e.spots[members])
		if i.Mode == Exclusive {
			visit(&e.spots[membersExclusive])
		}
	}
}

// conflicts visits the spots whose owners are in an item's way, until visit says false. A release has none.
func (t *Table) conflicts(i Item, visit func(*spot) bool) {
	own, below := direct, members
	switch i.Mode {
	case None:
		return
	case Shared:
		own, below = directExclusive, membersExclusive
	}
	if e := t.locks[i.Lock]; e != nil && (!visit(&e.spots[own]) || !visit(&e.spots[below])) {
		return
	}
	for _, g := range t.implied(i.Lock) {
		if e := t.locks[g]; e != nil && !visit(&e.spots[own]) {
			return
		}
	}
}

// move takes an owner from the places of one mode to those of another.
func (t *Table) move(h *holder, l Lock, from, to Mode, lost func(*spot)) {
	if to > None {
		t.places(Item{l, to}, func(s *spot) {
			if s.owners == nil {
				s.owners = map[*holder]int{}
			}
			s.owners[h]++
		})
	}
	if from == None {
		return
	}
	t.places(Item{l, from}, func(s *spot) {
		if s.owners[h]--; s.owners[h] == 0 {
			delete(s.owners, h)
			lost(s)
		}
	})
	t.tidyAll(l)
}

func (t *Table) tidyAll(l Lock) {
	t.tidy(t.locks[l])
	for _, g := range t.implied(l) {
		if e := t.locks[g]; e != nil {
			t.tidy(e)
		}
	}
}

// blocks tells whether anybody but h is at the spot.
func (s *spot) blocks(h *holder) bool {
	if len(s.owners) == 1 {
		return s.owners[h] == 0
	}
	return len(s.owners) > 1
}

// blockedAt is a spot at which the request is blocked, nil if there is none.
func (t *Table) blockedAt(h *holder, req Request) *spot {
	var found *spot
	for _, i := range req {
		t.conflicts(i, func(s *spot) bool {
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

// blockers is everybody in the way of the request but its owner, in owner order.
func (t *Table) blockers(h *holder, req Request) []Owner {
	found := map[*holder]struct{}{}
	for _, i := range req {
		t.conflicts(i, func(s *spot) bool {
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
