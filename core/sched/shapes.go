package sched

// shape is what groups have in common that differ in instances only: the kinds of their demands, and their names at the
// other levels. In most backlogs shapes are few, although every job has its own instance.
//
// Invariant: a shape exists as long as groups have it. Each group counts once.
type shape struct {
	hash   uint32
	mask   demandMask        // without overlaps
	first  [firstNames]int32 // its first names; 0: there are no more
	rest   int32             // the first link of its other names
	groups int32
	place  int32 // in the order Expected, or 0
	// The name that the closed place watches, as blockingIn has it, or 0; and the index in places.watchers.
	watched, watchIndex int32
}

// firstNames is how many names a shape has in itself. Most shapes have no more, and are compared with the taken names
// without a look at other memory.
const firstNames = 4

// shapes are the distinct combinations of a mask and of the names in it, each shared by the groups that want just these locks.
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
		return s.hash == hash && s.mask == mask && s.first == firstOf(list) && g.names.listEquals(s.rest, restOf(list))
	})
	if at == 0 {
		at = g.shapes.alloc()
		g.shapes.items[at] = shape{hash: hash, mask: mask, first: firstOf(list), rest: g.names.newList(restOf(list))}
		g.shapes.byHash.add(at)
	} else {
		for _, name := range list {
			g.names.dropRef(name)
		}
	}
	g.shapes.items[at].groups++
	return at
}

func firstOf(list []int32) (first [firstNames]int32) {
	copy(first[:], list)
	return first
}

func restOf(list []int32) []int32 { return list[min(len(list), firstNames):] }

// leaveShape counts a group less, and drops the shape with the last one.
func (g *groups) leaveShape(at int32) {
	s := &g.shapes.items[at]
	if s.groups--; s.groups == 0 {
		g.shapes.byHash.remove(at)
		for _, name := range s.first {
			if name != 0 {
				g.names.dropRef(name)
			}
		}
		g.names.freeList(s.rest)
		g.shapes.release(at)
	}
}

// namesOf calls yield with each name until it returns false, in the order of levels.
func (s *shapes) namesOf(at int32, n *names, yield func(int32) bool) bool {
	for _, name := range s.items[at].first {
		if name != 0 && !yield(name) {
			return false
		}
	}
	for name := range n.listed(s.items[at].rest) {
		if !yield(name) {
			return false
		}
	}
	return true
}

// blockingIn is the first name of a list that conflicts with an active owner, or 0. It is negative if the demand is a
// shared one: such a name is free earlier. mask has the kinds of the demands.
func (g *groups) blockingIn(list int32, mask demandMask) int32 {
	for at := list; at != 0; {
		l := g.names.links.items[at]
		if name := g.names.blocking(mask, l.name); name != 0 {
			return name
		}
		at = l.next
	}
	return 0
}

// blockingShape returns a name of a shape that another owner has in the way of the shape's jobs, or 0 if there is none.
func (g *groups) blockingShape(at int32) int32 {
	s := &g.shapes.items[at]
	for _, name := range s.first {
		if name == 0 {
			return 0
		}
		if name := g.names.blocking(s.mask, name); name != 0 {
			return name
		}
	}
	return g.blockingIn(s.rest, s.mask)
}
