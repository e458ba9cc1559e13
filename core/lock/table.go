package lock

import (
	"maps"
	"slices"
)

// Table is the allocation: who holds what (locks.md 1.4). It changes only when an update succeeds.
//
// An update costs what its own items and its owner's number of locks (by the logarithm) cost, and the number of
// blockers it has to name. It does not grow with other owners and their locks.
//
// Invariants: locks has an entry for a lock if and only if one of its spots is used; no lock is held, itself or through
// a lock that it implies, by an exclusive owner and anybody else.
type Table struct {
	implied Lattice
	holders map[Owner]*holder
	locks   map[Lock]*entry
}

// holder is what the table knows of an owner.
//
// Invariant: it is in Table.holders if it holds something or has a pending request; order has just the values of held.
type holder struct {
	owner   Owner
	held    map[Lock]*hold
	order   heap[*hold] // the greatest lock first
	pending *request
}

// hold is one lock held by one owner. Mode is never None.
type hold struct {
	lock Lock
	mode Mode
	at   int
}

func (h *hold) before(k *hold) bool { return h.lock.Compare(k.lock) > 0 }
func (h *hold) place() *int         { return &h.at }

// NewTable is an allocation in which nobody holds anything.
func NewTable(implied Lattice) *Table {
	return &Table{implied: implied, holders: map[Owner]*holder{}, locks: map[Lock]*entry{}}
}

// Update applies a request whole, or not at all (locks.md 1.5). It returns those who are in its way, in owner order:
// none if it was applied. Being blocked is no error. The error is an *InconsistentError, *OrderError or *GroupError.
func (t *Table) Update(o Owner, req Request) ([]Owner, error) {
	h := t.holder(o)
	defer t.forget(h)
	if err := t.check(h, req); err != nil {
		return nil, err
	}
	blockers := t.blockers(h, req)
	if len(blockers) == 0 {
		t.apply(h, req, func(*spot) {})
	}
	return blockers, nil
}

// Free releases all that the owner holds.
func (t *Table) Free(o Owner) {
	h := t.holder(o)
	t.apply(h, h.releases(func(Lock) bool { return true }), func(*spot) {})
	t.forget(h)
}

// Mode is how the owner holds the lock itself.
func (t *Table) Mode(o Owner, l Lock) Mode {
	if h := t.holders[o]; h != nil {
		return h.mode(l)
	}
	return None
}

// Held is what the owner holds, in lock order.
func (t *Table) Held(o Owner) []Item {
	if h := t.holders[o]; h != nil {
		return h.items()
	}
	return nil
}

// Locks is every lock that somebody owns, directly or through a lock that it implies, in lock order
// (listAllLocks of locks.md 2.3).
func (t *Table) Locks() []Lock {
	var all []Lock
	for l, e := range t.locks {
		if len(e.spots[direct].owners)+len(e.spots[members].owners) > 0 {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, Lock.Compare)
	return all
}

// Claim is an owner and how it holds a lock.
type Claim struct {
	Owner Owner
	Mode  Mode
}

// Owners is who holds the lock itself, in owner order.
func (t *Table) Owners(l Lock) []Claim {
	e := t.locks[l]
	if e == nil {
		return nil
	}
	var claims []Claim
	for h := range e.spots[direct].owners {
		claims = append(claims, Claim{h.owner, h.mode(l)})
	}
	slices.SortFunc(claims, func(a, b Claim) int { return a.Owner.Compare(b.Owner) })
	return claims
}

// Holders is everybody who holds something, in owner order (lockOwners).
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

// holder finds an owner, or makes it known. Whoever calls it calls forget when done.
func (t *Table) holder(o Owner) *holder {
	h := t.holders[o]
	if h == nil {
		h = &holder{owner: o, held: map[Lock]*hold{}}
		t.holders[o] = h
	}
	return h
}

// forget drops an owner that neither holds nor wants anything.
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

// items is what is held, in lock order.
func (h *holder) items() []Item {
	items := make([]Item, 0, len(h.held))
	for _, l := range slices.SortedFunc(maps.Keys(h.held), Lock.Compare) {
		items = append(items, Item{l, h.held[l].mode})
	}
	return items
}

// releases is the request that gives up what is held and matches.
func (h *holder) releases(match func(Lock) bool) Request { return h.requests(match, None) }

// requests is the request that puts what is held and matches into a mode, in lock order.
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

// fulfils tells whether every item is in force as it is.
func (h *holder) fulfils(req Request) bool {
	return !slices.ContainsFunc(req, func(i Item) bool { return h.mode(i.Lock) != i.Mode })
}

// apply puts a request into force that has been checked and has no blockers. It tells lost of every spot at which the
// owner no longer is.
func (t *Table) apply(h *holder, req Request, lost func(*spot)) {
	for _, i := range req {
		was := h.mode(i.Lock)
		switch held := h.held[i.Lock]; {
		case was == i.Mode:
			continue
		case i.Mode == None:
			delete(h.held, i.Lock)
			h.order.remove(held)
		case was == None:
			held = &hold{lock: i.Lock, mode: i.Mode}
			h.held[i.Lock] = held
			h.order.push(held)
		default:
			held.mode = i.Mode
		}
		t.move(h, i.Lock, was, i.Mode, lost)
	}
}
