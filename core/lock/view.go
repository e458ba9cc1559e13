package lock

import (
	"cmp"
	"slices"
)

// View answers whether a request would be granted, for a program that is told of locks and expects others. It answers what the lock
// manager would answer: a request of an owner is blocked at the same points as in State. The caller passes what an owner holds, what it
// is expected to take soon, and its overdue request; the three count alike, because an overdue request is in the way of others at exactly
// the points where its locks would be (bypass.go). Owners may therefore conflict in a View.
//
// It is in memory only.
type View struct{ table *Table }

// NewView is a View without owners.
func NewView(implied Hierarchy) *View { return &View{NewTable(implied)} }

// Point is a place at which a request may be blocked, as long as another owner is there. Points can be compared.
type Point struct {
	lock Lock
	kind uint8
}

// Lock is the lock to which the point belongs.
func (p Point) Lock() Lock { return p.lock }

func pointOf(at *waitPoint) Point {
	for k := range at.entry.points {
		if at == &at.entry.points[k] {
			return Point{at.entry.lock, uint8(k)}
		}
	}
	panic("a point belongs to its entry")
}

// Set replaces the locks of an owner. A lock that is listed twice counts in its stronger mode. left is called for each
// point that the owner has left.
func (v *View) Set(o Owner, items []Item, left func(Point)) {
	h := v.table.holder(o)
	wanted := make(map[Lock]Mode, len(items))
	for _, i := range items {
		wanted[i.Lock] = max(wanted[i.Lock], i.Mode)
	}
	change := h.requests(func(l Lock) bool { return wanted[l] == None }, None)
	for _, i := range items {
		if mode := wanted[i.Lock]; mode != None && h.mode(i.Lock) != mode {
			change = append(change, Item{i.Lock, mode})
		}
	}
	v.table.apply(h, change, func(at *waitPoint) { left(pointOf(at)) })
	v.table.forget(h)
}

// BlockedAt is a point at which a request of the owner is blocked; false if it can be granted. The owner's own locks do
// not block it.
func (v *View) BlockedAt(o Owner, req Request) (Point, bool) {
	at := v.table.blockedAt(v.table.holders[o], req)
	if at == nil {
		return Point{}, false
	}
	return pointOf(at), true
}

// Blockers are the owners that block a request, in owner order; none if it can be granted.
func (v *View) Blockers(o Owner, req Request) []Owner {
	return v.table.blockers(v.table.holders[o], req)
}

// Conflict is an owner that blocks a request, and the locks of the request at which it does, in lock order.
type Conflict struct {
	Owner Owner
	Locks []Lock
}

// Conflicts are the other owners that block a request, in owner order as Blockers lists them, each with the items of the request that it
// blocks.
func (v *View) Conflicts(o Owner, req Request) []Conflict {
	h := v.table.holders[o]
	found := map[*holder]*Conflict{}
	for _, i := range req {
		v.table.visitConflicts(i, func(s *waitPoint) bool {
			for other := range s.owners { // the order does not matter
				if other == h {
					continue
				}
				if found[other] == nil {
					found[other] = &Conflict{Owner: other.owner}
				}
				if c := found[other]; !slices.Contains(c.Locks, i.Lock) {
					c.Locks = append(c.Locks, i.Lock)
				}
			}
			return true
		})
	}
	conflicts := make([]Conflict, 0, len(found))
	for _, c := range found { // the order does not matter
		slices.SortFunc(c.Locks, Lock.Compare)
		conflicts = append(conflicts, *c)
	}
	slices.SortFunc(conflicts, func(a, b Conflict) int { return a.Owner.Compare(b.Owner) })
	return conflicts
}

// Compare orders points by lock, then by kind.
func (p Point) Compare(q Point) int {
	return cmp.Or(p.lock.Compare(q.lock), cmp.Compare(p.kind, q.kind))
}

// Request is the known part of a declaration as the request of an opcode: names and whole levels, with the big lock,
// which every opcode with locks takes shared. An unknown lock is not in it. Without any demand it is empty.
func (d *Declaration) Request() Request { return d.AppendRequest(nil) }

// AppendRequest appends to req what the declaration demands, as a request: BGL alone, or shared BGL before anything else. It is empty
// without a demand.
func (d *Declaration) AppendRequest(req Request) Request {
	if d.BGL {
		return append(req, Item{BGL, Exclusive})
	}
	for k, w := range d.Demands {
		level, mode := DemandLevel(k), w.Kind.mode()
		all := w.Kind.shared() == AllShared
		if mode == None || all && level == Free { // no lock is all free locks
			continue
		}
		if len(req) == 0 {
			req = append(req, Item{BGL, Shared})
		}
		if all {
			req = append(req, Item{Group(level), mode})
		}
		for _, name := range w.Names {
			req = append(req, Item{Member(level, name), mode})
		}
	}
	return req
}

// mode returns how locks of a demand of this kind are held; None for no demand.
func (k DemandKind) mode() Mode {
	switch {
	case k == Nothing:
		return None
	case k >= ExclusiveSet:
		return Exclusive
	}
	return Shared
}
