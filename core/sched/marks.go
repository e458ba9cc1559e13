package sched

import "lockstep/core/job"

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

// setMark marks a candidate as waiting for locks, which takes a place in each limit that it has now; a former mark, perhaps with other
// limits, is dropped.
func (j *jobs) setMark(id job.ID) {
	j.dropMark(id)
	j.marks.candidates[id] = j.groups.limits.mark(j.groups.bucketOf(j.groups.groupOf(id)).limits)
}

// dropMark takes the mark from a job, also from one that was released, and gives back its places in limits.
func (j *jobs) dropMark(id job.ID) {
	for _, of := range []map[job.ID][]*counter{j.marks.candidates, j.marks.released} {
		j.groups.limits.unmark(of[id])
		delete(of, id)
	}
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
func (j *jobs) RestoreMark(id job.ID) {
	if j.groups.entryOf(id) != 0 && !j.Yielded(id) {
		j.setMark(id)
	}
}

// HasMark reports whether a job is marked.
func (j *jobs) HasMark(id job.ID) bool {
	_, candidate := j.marks.candidates[id]
	_, released := j.marks.released[id]
	return candidate || released
}
