package scheduler

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/messages"
)

// withhold has a job with a process not given locks any more, or again.
func (s *scheduler) withhold(ctx actor.Context, id job.ID, withhold bool) {
	if s.withheld[id] == withhold {
		return
	}
	if delete(s.withheld, id); withhold {
		s.withheld[id] = true
	}
	ctx.Send(s.config.Locks, &messages.WithholdLocks{Id: int64(id), Withhold: withhold})
}

// withholdPopulation does so for everybody: verdicts may have changed while nothing
// was known.
func (s *scheduler) withholdPopulation(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(s.withheld)) {
		if j := s.jobs[id]; j == nil || !j.running {
			s.withhold(ctx, id, false)
		}
	}
	for _, id := range s.state.RunningIDs() {
		s.withhold(ctx, id, s.jobs[id].paused())
	}
}

// withholdAll tells a lock manager that knows of nobody who is paused.
func (s *scheduler) withholdAll(ctx actor.Context, epoch uint64) {
	told := &messages.WithholdingTold{Epoch: epoch}
	for _, id := range slices.Sorted(maps.Keys(s.withheld)) {
		told.Ids = append(told.Ids, int64(id))
	}
	ctx.Send(s.config.Locks, told)
}
