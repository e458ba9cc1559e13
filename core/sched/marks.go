package sched

import (
	"maps"
	"slices"

	"lockstep/core/job"
)

// MarkBlocked marks candidates that only locks or a reservation keep from starting, and returns them. They are marked in the
// order of their starts, while processes and marks together leave a run slot and a place in each limit. The caller has just
// called Pick. A mark lasts until Withdraw, Remove or the start of the job.
//
// Marks are shown to people. No decision depends on them, and they count nowhere but here.
//
// The cost depends on the numbers of buckets and of run slots, and not on the number of candidates.
func (s *State) MarkBlocked() []job.ID {
	m := marking{State: s, room: s.settings.Slots - len(s.running) - len(s.marks)}
	if s.expected == nil || s.expected.unfinished || m.room <= 0 || s.groups.len() == len(s.marks) {
		return nil
	}
	m.countPlaces()
	f := s.newFrontier(m.leavesPlace)
	aged := s.expected.reserved.aged
	for m.room > 0 {
		at, more := f.pop()
		for len(aged) > 0 && (!more || aged[0].priority <= at.order.priority) {
			if s.isCandidate(aged[0]) {
				m.consider(aged[0].id)
			}
			aged = aged[1:]
		}
		if !more {
			break
		}
		if m.leavesPlace(at.bucket) {
			m.consider(at.order.id)
			f.expand(at)
		}
	}
	return m.marked
}

// marking is the search for candidates to mark.
type marking struct {
	*State
	room   int
	places map[*counter]int // how many marked jobs carry a limit
	marked []job.ID
}

// countPlaces counts the places that the marked jobs would take.
func (m *marking) countPlaces() {
	m.places = map[*counter]int{}
	for id := range m.marks { // the order does not matter
		m.takePlaces(m.bucketOfJob(id))
	}
}

// bucketOfJob is the bucket of a candidate.
func (s *State) bucketOfJob(id job.ID) *bucket {
	return s.groups.bucketOf(s.groups.entries.items[s.groups.entryOf(id)].group)
}

func (m *marking) takePlaces(b *bucket) {
	for _, limit := range m.groups.limits.boundsOf(b.limits) {
		m.places[limit.counter]++
	}
}

// leavesPlace reports whether candidates of a bucket may be marked: they have no process, and a place in each limit is left.
func (m *marking) leavesPlace(at int32) bool {
	b := &m.groups.buckets.items[at]
	return !b.continues && !slices.ContainsFunc(m.groups.limits.boundsOf(b.limits), func(limit bound) bool {
		return limit.running+m.places[limit.counter] >= limit.n
	})
}

// consider marks a candidate, if it has no mark and there is room for one.
func (m *marking) consider(id job.ID) {
	group := m.groups.entries.items[m.groups.entryOf(id)].group
	if _, has := m.marks[id]; has || m.room <= 0 || !m.leavesPlace(m.groups.items[group].bucket) {
		return
	}
	m.marks[id] = struct{}{}
	m.room--
	m.takePlaces(m.bucketOfJob(id))
	m.marked = append(m.marked, id)
}

// RestoreMark marks a candidate that was marked before it was enqueued again.
func (s *State) RestoreMark(id job.ID) {
	if s.groups.entryOf(id) != 0 {
		s.marks[id] = struct{}{}
	}
}

// HasMark reports whether a job is marked.
func (s *State) HasMark(id job.ID) bool {
	_, has := s.marks[id]
	return has
}

// MarkedByLocks are the marked candidates that cannot get their locks now, in the order Expected.
func (s *State) MarkedByLocks() []BlockedJob {
	if s.expected == nil {
		return nil
	}
	ids := slices.SortedFunc(maps.Keys(s.marks), func(a, b job.ID) int {
		if s.presentOrder(s.groups.entryOf(a)).before(s.presentOrder(s.groups.entryOf(b))) {
			return -1
		}
		return 1
	})
	return s.blockedByLocks(ids)
}
