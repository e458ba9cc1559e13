package sched

import (
	"slices"

	"lockstep/core/job"
)

func (x *expected) MarkBlocked() []job.ID {
	m := marking{expected: x, room: x.settings.Slots - len(x.running) - len(x.marks.candidates) - len(x.marks.released)}
	if x.unfinished || m.room <= 0 || x.groups.len() == len(x.marks.candidates) {
		return nil
	}
	f := newFrontier(x.groups, x, x.mayMark)
	aged := x.reserved.aged
	for m.room > 0 {
		at, more := f.pop()
		for len(aged) > 0 && (!more || aged[0].priority <= at.rank.priority) {
			if x.reserved.isCandidate(aged[0]) {
				m.consider(aged[0].id, x.groups.items[x.groups.groupOf(aged[0].id)].bucket)
			}
			aged = aged[1:]
		}
		if !more {
			break
		}
		if x.mayMark(at.bucket) {
			m.consider(at.rank.id, at.bucket)
			f.expand(at)
		}
	}
	return m.marked
}

// marking is one search for the candidates that clients shall see as waiting for locks: at most room of them.
type marking struct {
	*expected
	room   int
	marked []job.ID
}

// mayMark reports whether candidates of a bucket may be marked: they have no process, and a place in each limit is left.
func (x *expected) mayMark(at int32) bool {
	b := &x.groups.buckets.items[at]
	return !b.continues && !slices.ContainsFunc(x.groups.limits.boundsOf(b.limits), func(limit bound) bool {
		return limit.running+limit.marked >= limit.n
	})
}

// consider marks a candidate, if it has no mark and there is room for one.
func (m *marking) consider(id job.ID, bucket int32) {
	if _, has := m.marks.candidates[id]; has || m.room <= 0 || !m.mayMark(bucket) {
		return
	}
	m.setMark(id)
	m.room--
	m.marked = append(m.marked, id)
}
