package queue

import (
	"maps"
	"slices"

	"lockstep/core/filter"
	"lockstep/messages"
)

// verdicts holds what the filter rules say of the jobs that are not final, and which
// questions the filter engine has not answered.
type verdicts struct {
	// of has the jobs that a rule applies to, by id. All other jobs are accepted.
	of map[int64]*messages.Verdict
	// complete is true when the filter engine has answered for all jobs of this incarnation.
	complete bool
	// allRequested is true when this incarnation has asked for all jobs. An earlier answer
	// is for an earlier incarnation.
	allRequested bool
	// last is the number of the last question about a group. Its upper 32 bits are the
	// incarnation of the queue, so that an answer for an earlier one is not mistaken.
	last uint64
	// open is the question about the group that is being committed; nil if it is answered.
	open *messages.EvaluateFilters
	// scheduler is the request number of a scheduler that waits for complete; 0 if none does.
	scheduler uint64
}

func newVerdicts(incarnation uint32) *verdicts {
	return &verdicts{of: map[int64]*messages.Verdict{}, last: uint64(incarnation) << 32}
}

// verb returns what the rules do with a job.
func (v *verdicts) verb(id int64) filter.Verb { return filter.VerbOf(v.of[id]) }

// ask makes the question about the jobs of a group, and keeps it open.
func (v *verdicts) ask(jobs []*messages.UnfinishedJob) *messages.EvaluateFilters {
	v.last++
	v.open = &messages.EvaluateFilters{Request: v.last, Jobs: jobs}
	return v.open
}

// answersAll reports whether m is the answer about all jobs.
func (v *verdicts) answersAll(m *messages.EvaluateFiltersResult) bool {
	return m.Request == 0 && v.allRequested
}

// answersGroup reports whether m is the answer about the group, and takes it. It is
// true once for each question.
func (v *verdicts) answersGroup(m *messages.EvaluateFiltersResult) bool {
	if v.open == nil || m.Request != v.open.Request {
		return false
	}
	v.open = nil
	for _, verdict := range m.Verdicts {
		v.of[verdict.Id] = verdict
	}
	return true
}

// completed takes the verdicts on all jobs, and returns them as changes. Jobs that are
// not named are accepted, also if the former filter engine had another verdict.
func (v *verdicts) completed(named []*messages.Verdict) *messages.VerdictsChanged {
	v.complete = true
	accepted := maps.Clone(v.of)
	for _, verdict := range named {
		delete(accepted, verdict.Id)
	}
	changed := &messages.VerdictsChanged{Verdicts: slices.Clone(named)}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		changed.Verdicts = append(changed.Verdicts, &messages.Verdict{Id: id})
	}
	return changed
}

// change takes new verdicts. One without a rule says that the job is accepted.
func (v *verdicts) change(changed []*messages.Verdict) {
	for _, verdict := range changed {
		if verdict.Rule == "" {
			delete(v.of, verdict.Id)
		} else {
			v.of[verdict.Id] = verdict
		}
	}
}

// takeScheduler returns the request of the scheduler that waits, and forgets it; 0 if none waits.
func (v *verdicts) takeScheduler() uint64 {
	request := v.scheduler
	v.scheduler = 0
	return request
}

// forget drops the verdict on a job that has ended or was not recorded.
func (v *verdicts) forget(id int64) { delete(v.of, id) }
