package sched

import (
	"slices"

	"lockstep/actors/core/job"
)

// State is all that the scheduler knows: who waits, who runs, how many may.
// It is rebuilt from the queue's population after a crash.
type State struct {
	pending Order
	running map[job.ID]struct{}
	slots   int
}

// NewState starts with the given number of run slots (max_running_jobs, at
// least 1), jobs that wait and jobs that hold a slot already.
func NewState(slots int, pending []Pending, running []job.ID) *State {
	s := &State{running: make(map[job.ID]struct{}, len(running)), slots: max(slots, 1)}
	for _, id := range running {
		s.running[id] = struct{}{}
	}
	for _, p := range pending {
		s.Enqueue(p)
	}
	return s
}

// Enqueue adds a job that may be picked. A job that holds a slot cannot wait
// for one: being told so again changes nothing.
func (s *State) Enqueue(p Pending) {
	if _, holds := s.running[p.ID]; !holds {
		s.pending.Put(p)
	}
}

// Leave forgets a job, and frees its slot if it had one.
func (s *State) Leave(id job.ID) {
	s.pending.Remove(id)
	delete(s.running, id)
}

// Pick gives free slots to the jobs that go first, and returns these in that
// order. More jobs than slots may be running, when the limit was lowered.
func (s *State) Pick() []job.ID {
	var picked []job.ID
	for len(s.running) < s.slots {
		p, any := s.pending.Pop()
		if !any {
			break
		}
		s.running[p.ID] = struct{}{}
		picked = append(picked, p.ID)
	}
	return picked
}

// Waiting is how many jobs wait; Running lists who holds a slot, by id.
func (s *State) Waiting() int { return s.pending.Len() }

// Running lists the jobs that hold a slot, by id.
func (s *State) Running() []job.ID {
	ids := make([]job.ID, 0, len(s.running))
	for id := range s.running {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
