package lock

import (
	"maps"
	"slices"

	"lockstep/core/heap"
)

// Table is the allocation: which owner holds which lock (locks.md 1.4). It changes only when an update succeeds.
//
// The cost of an update grows with its items, the logarithm of the owner's number of locks, and the number of blockers
// in the result. It does not grow with other owners and their locks.
//
// Invariants: locks has an entry for a lock if and only if one of its points is used. A lock that an owner holds
// exclusively, itself or through a lock that implies it, is held by no other owner.
type Table struct {
	implied Hierarchy
	holders map[Owner]*holder
	locks   map[Lock]*lockEntry
}

// holder is the table's record of an owner.
//
// Invariant: it is in Table.holders if it holds something or has a pending request. greatestFirst has exactly the
// values of held.
type holder struct {
	owner         Owner
	held          map[Lock]*heldLock
	greatestFirst heap.Heap[*heldLock, greatestFirst]
	pending       *request
}

// heldLock is one lock held by one owner. Mode is never None.
type heldLock struct {
	lock  Lock
	mode  Mode
	index int
}

// greatestFirst is the order in which the greatest lock is first.
type greatestFirst struct{}

func (greatestFirst) Before(a, b *heldLock) bool   { return a.lock.Compare(b.lock) > 0 }
func (greatestFirst) Moved(h *heldLock, index int) { h.index = index }

// NewTable is an allocation without owners.
func NewTable(implied Hierarchy) *Table {
	return &Table{implied: implied, holders: map[Owner]*holder{}, locks: map[Lock]*lockEntry{}}
}

// Update applies a request completely or not at all (locks.md 1.5). It returns the blockers in owner order, none if the
// request was applied. A blocked request is not an error. The error is an *InconsistentError, *OrderError or
// *GroupError.
func (t *Table) Update(o Owner, req Request) ([]Owner, error) {
	h := t.holder(o)
	defer t.forget(h)
	if err := t.check(h, req); err != nil {
		return nil, err
	}
	blockers := t.blockers(h, req)
	if len(blockers) == 0 {
		t.apply(h, req, func(*waitPoint) {})
	}
	return blockers, nil
}

// ReleaseAll releases all locks of the owner and forgets the owner.
func (t *Table) ReleaseAll(o Owner) {
	h := t.holder(o)
	t.apply(h, h.releases(func(Lock) bool { return true }), func(*waitPoint) {})
	t.forget(h)
}

// Mode is the mode in which the owner holds the lock itself.
func (t *Table) Mode(o Owner, l Lock) Mode {
	if h := t.holders[o]; h != nil {
		return h.mode(l)
	}
	return None
}

// Held are the locks of the owner, in lock order; nil for an owner without locks.
func (t *Table) Held(o Owner) []Item {
	if h := t.holders[o]; h != nil {
		return h.items()
	}
	return nil
}

// Locks are the locks that have an owner, directly or through a lock that it implies, in lock order (listAllLocks of
// locks.md 2.3).
func (t *Table) Locks() []Lock {
	var all []Lock
	for l, e := range t.locks {
		if len(e.points[atLock].owners)+len(e.points[atMembers].owners) > 0 {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, Lock.Compare)
	return all
}

// OwnerMode is an owner and the mode in which it holds a lock.
type OwnerMode struct {
	Owner Owner
	Mode  Mode
}

// Owners are the owners that hold the lock itself, in owner order. Those that hold it only through its level are not among them.
func (t *Table) Owners(l Lock) []OwnerMode {
	e := t.locks[l]
	if e == nil {
		return nil
	}
	var owners []OwnerMode
	for h := range e.points[atLock].owners {
		owners = append(owners, OwnerMode{h.owner, h.mode(l)})
	}
	slices.SortFunc(owners, func(a, b OwnerMode) int { return a.Owner.Compare(b.Owner) })
	return owners
}

// Holders are the owners that hold something, in owner order (lockOwners).
func (t *Table) Holders() []Owner {
	return t.ownersWhere(func(h *holder) bool { return len(h.held) > 0 })
}

func (t *Table) ownersWhere(wanted func(*holder) bool) []Owner {
	var all []Owner
	for o, h := range t.holders {
		if wanted(h) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, Owner.Compare)
	return all
}

// holder finds or adds an owner. The caller calls forget afterwards, which removes an owner without locks and requests.
func (t *Table) holder(o Owner) *holder {
	h := t.holders[o]
	if h == nil {
		h = &holder{owner: o, held: map[Lock]*heldLock{}}
		t.holders[o] = h
	}
	return h
}

// forget removes an owner that neither holds nor waits for a lock.
func (t *Table) forget(h *holder) {
	if len(h.held) == 0 && h.pending == nil {
		delete(t.holders, h.owner)
	}
}

func (h *holder) mode(l Lock) Mode {
	if held := h.held[l]; held != nil {
		return held.mode
	}
	return None
}

// items returns the locks that the owner holds, with their modes, in lock order.
func (h *holder) items() []Item {
	items := make([]Item, 0, len(h.held))
	for _, l := range slices.SortedFunc(maps.Keys(h.held), Lock.Compare) {
		items = append(items, Item{l, h.held[l].mode})
	}
	return items
}

// releases is the request that releases the held locks that match.
func (h *holder) releases(match func(Lock) bool) Request { return h.requests(match, None) }

// requests is the request that changes the held locks that match to a mode, in lock order.
func (h *holder) requests(match func(Lock) bool, mode Mode) Request {
	var req Request
	for l := range h.held {
		if match(l) {
			req = append(req, Item{l, mode})
		}
	}
	slices.SortFunc(req, Item.Compare)
	return req
}

// satisfies reports whether the owner holds every item in exactly its mode.
func (h *holder) satisfies(req Request) bool {
	return !slices.ContainsFunc(req, func(i Item) bool { return h.mode(i.Lock) != i.Mode })
}

// apply puts a request into force that has been checked and has no blockers. It calls onLeave for every point that the
// owner has left.
func (t *Table) apply(h *holder, req Request, onLeave func(*waitPoint)) {
	for _, i := range req {
		was := h.mode(i.Lock)
		switch held := h.held[i.Lock]; {
		case was == i.Mode:
			continue
		case i.Mode == None:
			delete(h.held, i.Lock)
			h.greatestFirst.Remove(held.index)
		case was == None:
			held = &heldLock{lock: i.Lock, mode: i.Mode}
			h.held[i.Lock] = held
			h.greatestFirst.Push(held)
		default:
			held.mode = i.Mode
		}
		t.moveOwner(h, i.Lock, was, i.Mode, onLeave)
	}
}
