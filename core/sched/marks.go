package sched

import (
	"maps"
	"slices"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// marks are the marked jobs, each with the counters of its limits. A mark is shown to people: its job waits. No decision depends
// on marks, and they count nowhere but here.
//
// Invariant: the jobs in candidates are candidates without a process. Those in released are no candidates, and are about to be
// enqueued again.
type marks struct {
	candidates, released map[job.ID][]*counter
}

func newMarks() marks {
	return marks{candidates: map[job.ID][]*counter{}, released: map[job.ID][]*counter{}}
}

// setMark marks a candidate with the limits that it has now.
func (s *State) setMark(id job.ID) {
	s.dropMark(id)
	s.marks.candidates[id] = s.groups.limits.mark(s.groups.bucketOf(s.groups.groupOf(id)).limits)
}

// dropMark takes the mark from a job that has one.
func (s *State) dropMark(id job.ID) {
	for _, of := range []map[job.ID][]*counter{s.marks.candidates, s.marks.released} {
		s.groups.limits.unmark(of[id])
		delete(of, id)
	}
}

// MarkBlocked marks candidates that only locks or a reservation keep from starting, and returns them. They are marked in the
// order of their starts, while processes and marks together leave a run slot and a place in each limit. The caller has just
// called Pick. A mark lasts until Withdraw, Remove or the start of the job.
//
// The cost depends on the numbers of buckets and of run slots, and not on the number of candidates.
func (s *State) MarkBlocked() []job.ID {
	m := marking{State: s, room: s.settings.Slots - len(s.running) - len(s.marks.candidates) - len(s.marks.released)}
	if s.expected == nil || s.expected.unfinished || m.room <= 0 || s.groups.len() == len(s.marks.candidates) {
		return nil
	}
	f := s.newFrontier(s.mayMark)
	aged := s.expected.reserved.aged
	for m.room > 0 {
		at, more := f.pop()
		for len(aged) > 0 && (!more || aged[0].priority <= at.order.priority) {
			if s.isCandidate(aged[0]) {
				m.consider(aged[0].id, s.groups.items[s.groupOf(aged[0])].bucket)
			}
			aged = aged[1:]
		}
		if !more {
			break
		}
		if s.mayMark(at.bucket) {
			m.consider(at.order.id, at.bucket)
			f.expand(at)
		}
	}
	return m.marked
}

// marking is the search for candidates to mark.
type marking struct {
	*State
	room   int
	marked []job.ID
}

// mayMark reports whether candidates of a bucket may be marked: they have no process, and a place in each limit is left.
func (s *State) mayMark(at int32) bool {
	b := &s.groups.buckets.items[at]
	return !b.continues && !slices.ContainsFunc(s.groups.limits.boundsOf(b.limits), func(limit bound) bool {
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

// Release removes a job that will be enqueued again after a change, or removed. It keeps its mark, and the room of it.
func (s *State) Release(id job.ID) {
	kept, marked := s.marks.candidates[id]
	delete(s.marks.candidates, id)
	s.Remove(id)
	if marked {
		s.marks.released[id] = kept
	}
}

// RestoreMark marks a candidate without a process that had a mark in an earlier State.
func (s *State) RestoreMark(id job.ID) {
	if s.groups.entryOf(id) != 0 && !s.Yielded(id) {
		s.setMark(id)
	}
}

// HasMark reports whether a job is marked.
func (s *State) HasMark(id job.ID) bool {
	_, candidate := s.marks.candidates[id]
	_, released := s.marks.released[id]
	return candidate || released
}

// MarkedByLocks are the marked candidates that cannot get their locks now, in the order Expected. Wanted are those of the locks
// that others keep from them.
func (s *State) MarkedByLocks() []BlockedJob {
	if s.expected == nil {
		return nil
	}
	ids := slices.SortedFunc(maps.Keys(s.marks.candidates), func(a, b job.ID) int {
		if s.presentOrder(s.groups.entryOf(a)).before(s.presentOrder(s.groups.entryOf(b))) {
			return -1
		}
		return 1
	})
	var blocked []BlockedJob
	for _, id := range ids {
		group := s.groups.groupOf(id)
		wanted := slices.Clone(s.requestOf(group))
		conflicts := s.expected.view.Conflicts(jobOwnerKey(id), wanted)
		wanted = slices.DeleteFunc(wanted, func(i lock.Item) bool {
			return !slices.ContainsFunc(conflicts, func(c lock.Conflict) bool { return slices.Contains(c.Locks, i.Lock) })
		})
		if len(wanted) > 0 {
			blocked = append(blocked, BlockedJob{ID: id, Priority: s.groups.bucketOf(group).priority, Wanted: wanted})
		}
	}
	return blocked
}
