package sched

import "lockstep/actors/core/lock"

// names holds each name once that a candidate declares or that a party of the
// running side holds or wants, and who among the groups declares it.
//
// What the running side does changes far more often than a choice is made, mostly
// to and fro. So a change only marks the name; settle passes on what differs.
type names struct {
	arena[name]
	at     index
	links  arena[link]
	marked []int32
}

// name is one lock by level and text.
//
// Invariants: refs counts its links and the claims on it, and the name is known
// as long as there are any; applied is the mode for which groups' overlaps have
// been counted; a marked name is in names.marked, once.
type name struct {
	text              string
	refs              int32
	shared, exclusive int32 // claims of the running side that count
	links             int32 // the first
	level             lock.Level
	applied           lock.Mode
	isMarked          bool
}

// link says that a group declares a name. It is in two lists: of the name, and of
// the group in the order of its declaration.
type link struct {
	group, name    int32
	nextOf, prevOf int32 // of the same name
	nextIn         int32 // of the same group
}

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

// drop gives one reference up. A marked name stays until it is settled.
func (n *names) drop(at int32) {
	n.all[at].refs--
	n.forget(at)
}

func (n *names) forget(at int32) {
	if n.all[at].refs == 0 && !n.all[at].isMarked {
		n.at.remove(at)
		n.give(at)
	}
}

// count adds to the number of claims that count.
func (n *names) count(at int32, k lock.Knowledge, by int32) {
	m := &n.all[at]
	if k == lock.ExclusiveSet {
		m.exclusive += by
	} else {
		m.shared += by
	}
	if !m.isMarked {
		m.isMarked = true
		n.marked = append(n.marked, at)
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

// link adds a name to what a group declares, after the link at tail.
func (n *names) link(group, name, tail int32) int32 {
	at := n.links.take()
	first := n.all[name].links
	n.links.all[at] = link{group: group, name: name, nextOf: first}
	n.links.all[first].prevOf = at
	n.all[name].links = at
	n.links.all[tail].nextIn = at
	return at
}

// unlink takes out a link, and returns the group's next one.
func (n *names) unlink(at int32) int32 {
	l := n.links.all[at]
	if l.prevOf == 0 {
		n.all[l.name].links = l.nextOf
	} else {
		n.links.all[l.prevOf].nextOf = l.nextOf
	}
	n.links.all[l.nextOf].prevOf = l.prevOf
	n.links.give(at)
	n.drop(l.name)
	return l.nextIn
}

// settle tells groups of the names whose mode has changed.
func (n *names) settle(changed func(group int32, level lock.Level, was, is lock.Mode)) {
	for _, at := range n.marked {
		m := &n.all[at]
		was, is := m.applied, m.mode()
		m.isMarked, m.applied = false, is
		if was != is {
			for l := m.links; l != 0; l = n.links.all[l].nextOf {
				changed(n.links.all[l].group, m.level, was, is)
			}
		}
		n.forget(at)
	}
	n.marked = n.marked[:0]
}
