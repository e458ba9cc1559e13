package jobtest

import "lockstep/core/job"

// Events are what can happen to an opcode of a status, by the table of transitions. A final status has none.
func Events(s job.Status) []job.Event {
	var all []job.Event
	for e := job.Begin; e <= job.Reprioritise; e++ {
		if _, possible := s.On(e); possible {
			all = append(all, e)
		}
	}
	return all
}

// Step takes a job one event further: its first opcode that is not final takes one of [Events], which draw chooses. As in a
// job process, the success of an opcode begins the next one in the same write, and the opcodes after a failed or canceled
// one end as it does. A final job stays as it is. Generators of statuses use Step, so that no test asks for a course that
// the table forbids.
func Step(j *job.Job, draw func([]job.Event) job.Event) {
	for i := range j.Ops {
		op := &j.Ops[i]
		if op.Status.Final() {
			continue
		}
		e := draw(Events(op.Status))
		op.Take(e)
		for k := i + 1; k < len(j.Ops); k++ {
			switch {
			case e == job.Succeed && k == i+1:
				j.Ops[k].Take(job.Begin)
			case op.Status == job.Error || op.Status == job.Canceled:
				j.Ops[k].Take(e)
			}
		}
		return
	}
}

// Ends are the final statuses.
func Ends() []job.Status { return []job.Status{job.Canceled, job.Success, job.Error} }
