package why

import "lockstep/core/answer"

// cycle says that the job waits for itself, or that all run slots have jobs that wait for jobs without one.
func (w Style) cycle(r answer.Reason) Sentence {
	switch {
	case len(r.Steps) == 0:
		return nil // of a later version
	case r.Slots > 0:
		s := Sentence{}.text("No run slot becomes free, because each of the %d jobs that have one waits for a job that has none: ", r.Slots)
		if r.Slots == 1 {
			s = Sentence{}.text("The run slot does not become free, because the job that has it waits for a job that has none: ")
		}
		return append(s, w.Waits(r)...).text(".")
	}
	return append(Sentence{}.text("It cannot end, because jobs wait for each other: "), w.Waits(r)...).text(".")
}

// Waits are the steps of a cycle, without a full stop.
func (w Style) Waits(r answer.Reason) Sentence {
	var s Sentence
	for i, step := range r.Steps {
		if i > 0 {
			s = s.text("; ")
		}
		s = s.jobOrNew(step.Job)
		switch step.By {
		case answer.WaitDependency:
			s = s.text(" depends on ").jobOrNew(step.For)
		case answer.WaitLock:
			s = s.text(" needs %s, which ", w.Clean(step.Lock)).jobOrNew(step.For).text(" has")
		default:
			s = s.text(" waits for ").jobOrNew(step.For)
		}
	}
	return s
}

// jobOrNew is job, for 0 too: a job that is not submitted yet.
func (s Sentence) jobOrNew(id int64) Sentence {
	if id == 0 {
		return s.text("the new job")
	}
	return s.job(id)
}
