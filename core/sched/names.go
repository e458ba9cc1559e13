package sched

import (
	"iter"

	"lockstep/core/lock"
)

// names stores, once each, the names that candidates declare or that active owners hold or want. It also stores the
// lists of names that groups declare.
type names struct {
	arena[name]
	byHash hashIndex
	links  arena[link]
}

// name is one lock by level and text.
//
// Invariant: refs counts the links and buckets that have the name and the claims on it. The name exists while refs is
// above 0.
type name struct {
	text              string
	refs              int32
	shared, exclusive int32 // claims of active owners that count
	level             lock.Level
}

// link is a name in the list of a group or a shape, in the order of the declaration.
type link struct{ name, next int32 }

func (n *names) hashOf(at int32) uint32 { return hashName(n.items[at].level, n.items[at].text) }

// hashName is the hash of a name at a level, for the index of names: FNV-1a, with the level as the first byte.
func hashName(level lock.Level, text string) uint32 {
	h := (uint32(2166136261) ^ uint32(level)) * 16777619
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h ^ h>>15
}

// addRef returns the index of the name at a level, and adds a reference to it. Without a reference before, the name is made.
func (n *names) addRef(level lock.Level, text string) int32 {
	at := n.byHash.find(hashName(level, text), func(at int32) bool {
		return n.items[at].level == level && n.items[at].text == text
	})
	if at == 0 {
		at = n.alloc()
		n.items[at] = name{text: text, level: level}
		n.byHash.add(at)
	}
	n.items[at].refs++
	return at
}

// dropRef drops a reference to a name. The name goes with the last one, and its index may stand for another one then.
func (n *names) dropRef(at int32) {
	if n.items[at].refs--; n.items[at].refs == 0 {
		n.byHash.remove(at)
		n.release(at)
	}
}

// countClaims adds to the number of claims on a name.
func (n *names) countClaims(at int32, k lock.DemandKind, by int32) {
	if k == lock.ExclusiveSet {
		n.items[at].exclusive += by
	} else {
		n.items[at].shared += by
	}
}

// mode is the strongest mode in which an active owner holds or wants the name.
func (m *name) mode() lock.Mode {
	switch {
	case m.exclusive > 0:
		return lock.Exclusive
	case m.shared > 0:
		return lock.Shared
	}
	return lock.None
}

// overlapBit is the bit of the name's level if a demand for the name conflicts with an active owner, and 0 otherwise.
func (n *names) overlapBit(demand demandMask, at int32) demandMask {
	m := &n.items[at]
	if k := levelNumber(m.level); conflictsWith(demand.kind(k), m.mode()) {
		return overlapBit(k)
	}
	return 0
}

// blocking is the name if a demand for it conflicts with an active owner, and 0 otherwise. It is negative if the demand
// is a shared one.
func (n *names) blocking(demand demandMask, at int32) int32 {
	if n.overlapBit(demand, at) == 0 {
		return 0
	}
	if demand.kind(levelNumber(n.items[at].level)) == lock.SharedSet {
		return -at
	}
	return at
}

// newList makes a list of names, which owns their references from then on.
func (n *names) newList(all []int32) int32 {
	first := int32(0)
	for i := len(all) - 1; i >= 0; i-- {
		at := n.links.alloc()
		n.links.items[at] = link{all[i], first}
		first = at
	}
	return first
}

// freeList drops a list of names, which begins at a link, and the reference of each link to its name.
func (n *names) freeList(first int32) {
	for at := first; at != 0; {
		l := n.links.items[at]
		n.links.release(at)
		n.dropRef(l.name)
		at = l.next
	}
}

// listEquals reports whether a list has these names.
func (n *names) listEquals(first int32, all []int32) bool {
	for ; first != 0 && len(all) > 0; first, all = n.links.items[first].next, all[1:] {
		if n.links.items[first].name != all[0] {
			return false
		}
	}
	return first == 0 && len(all) == 0
}

// listed are the names of a list.
func (n *names) listed(first int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for at := first; at != 0; at = n.links.items[at].next {
			if !yield(n.links.items[at].name) {
				return
			}
		}
	}
}
