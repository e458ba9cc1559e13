package sched

import (
	"iter"

	"lockstep/core/lock"
)

// names holds each name once that a candidate declares or that a party of the
// running side holds or wants, and the lists of names that groups declare.
type names struct {
	arena[name]
	at    index
	links arena[link]
}

// name is one lock by level and text.
//
// Invariant: refs counts the links and lanes that have it and the claims on it,
// and the name is known as long as there are any.
type name struct {
	text              string
	refs              int32
	shared, exclusive int32 // claims of the running side that count
	level             lock.Level
}

// link is a name in the list of a group, in the order of its declaration.
type link struct{ name, next int32 }

func (n *names) hashOf(at int32) uint32 { return hashName(n.all[at].level, n.all[at].text) }

// hashName is FNV-1a.
func hashName(level lock.Level, text string) uint32 {
	h := (uint32(2166136261) ^ uint32(level)) * 16777619
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h ^ h>>15
}

// refer finds or makes a name, and counts one reference more to it.
func (n *names) refer(level lock.Level, text string) int32 {
	at := n.at.find(hashName(level, text), func(at int32) bool {
		return n.all[at].level == level && n.all[at].text == text
	})
	if at == 0 {
		at = n.take()
		n.all[at] = name{text: text, level: level}
		n.at.add(at)
	}
	n.all[at].refs++
	return at
}

// drop gives one reference up.
func (n *names) drop(at int32) {
	if n.all[at].refs--; n.all[at].refs == 0 {
		n.at.remove(at)
		n.give(at)
	}
}

// count adds to the number of claims that count.
func (n *names) count(at int32, k lock.Knowledge, by int32) {
	if k == lock.ExclusiveSet {
		n.all[at].exclusive += by
	} else {
		n.all[at].shared += by
	}
}

// mode is the strongest in which the running side holds or wants the name.
func (m *name) mode() lock.Mode {
	switch {
	case m.exclusive > 0:
		return lock.Exclusive
	case m.shared > 0:
		return lock.Shared
	}
	return lock.None
}

// overlap is the bit that says that a name is in the way of the running side, or
// nothing, for those who declare it and want so much of its level.
func (n *names) overlap(wants look, at int32) look {
	m := &n.all[at]
	if k := int(m.level - lock.Instance); collides(wants.kind(k), m.mode()) {
		return overlap(k)
	}
	return 0
}

// list makes a list of names, whose references it takes over.
func (n *names) list(all []int32) int32 {
	first := int32(0)
	for i := len(all) - 1; i >= 0; i-- {
		at := n.links.take()
		n.links.all[at] = link{all[i], first}
		first = at
	}
	return first
}

// unlist gives a list up.
func (n *names) unlist(first int32) {
	for at := first; at != 0; {
		l := n.links.all[at]
		n.links.give(at)
		n.drop(l.name)
		at = l.next
	}
}

// of are the names of a list.
func (n *names) of(first int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for at := first; at != 0; at = n.links.all[at].next {
			if !yield(n.links.all[at].name) {
				return
			}
		}
	}
}
