package sched

import "lockstep/core/lock"

// shape is what groups have in common that differ in instances only: the kinds of their demands, and their names at the
// other levels. In most backlogs shapes are few, although every job has its own instance.
//
// Invariant: a shape exists as long as groups have it. Each group counts once.
type shape struct {
	hash   uint32
	mask   demandMask // without overlaps
	names  int32      // the first link of its names
	groups int32
	place  int32 // in the order Expected, or 0
	// The name that the closed place watches, as blockingIn has it, or 0; and the index in places.watchers.
	watched, watchIndex int32
}

// shapes is all shapes.
type shapes struct {
	arena[shape]
	byHash hashIndex
}

// shapeOf finds or makes the shape of a mask and names, and counts a group of it. It takes over the references to the
// names.
func (g *groups) shapeOf(mask demandMask, list []int32) int32 {
	hash := mix(0, uint64(mask))
	for _, name := range list {
		hash = mix(hash, uint64(name))
	}
	at := g.shapes.byHash.find(hash, func(at int32) bool {
		s := &g.shapes.items[at]
		return s.hash == hash && s.mask == mask && g.names.listEquals(s.names, list)
	})
	if at == 0 {
		names := g.names.newList(list)
		at = g.shapes.alloc()
		g.shapes.items[at] = shape{hash: hash, mask: mask, names: names}
		g.shapes.byHash.add(at)
	} else {
		for _, name := range list {
			g.names.dropRef(name)
		}
	}
	g.shapes.items[at].groups++
	return at
}

// leaveShape counts a group less, and drops the shape with the last one.
func (g *groups) leaveShape(at int32) {
	s := &g.shapes.items[at]
	if s.groups--; s.groups == 0 {
		g.shapes.byHash.remove(at)
		g.names.freeList(s.names)
		g.shapes.release(at)
	}
}

// blockingIn is the first name of a list that conflicts with an active owner, or 0. It is negative if the demand is a
// shared one: such a name is free earlier. mask has the kinds of the demands.
func (g *groups) blockingIn(list int32, mask demandMask) int32 {
	for at := list; at != 0; {
		l := g.names.links.items[at]
		if g.names.overlapBit(mask, l.name) == 0 {
			at = l.next
			continue
		}
		if mask.kind(levelNumber(g.names.items[l.name].level)) == lock.SharedSet {
			return -l.name
		}
		return l.name
	}
	return 0
}

// blockingName is blockingIn for the names of a group's shape.
func (g *groups) blockingName(group int32) int32 {
	s := &g.shapes.items[g.items[group].shape]
	return g.blockingIn(s.names, s.mask)
}
