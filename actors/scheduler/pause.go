package scheduler

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/messages"
)

// setPause has a job with a process not given locks any more, or again.
func (s *scheduler) setPause(ctx actor.Context, id job.ID, pause bool) {
	if s.paused[id] == pause {
		return
	}
	if delete(s.paused, id); pause {
		s.paused[id] = true
	}
	ctx.Send(s.config.Locks, &messages.SetLockPause{Id: int64(id), Paused: pause})
}

// syncPauses does so for everybody: verdicts may have changed while nothing
// was known.
func (s *scheduler) syncPauses(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(s.paused)) {
		if j := s.jobs[id]; j == nil || !j.running {
			s.setPause(ctx, id, false)
		}
	}
	for _, id := range s.state.RunningIDs() {
		s.setPause(ctx, id, s.jobs[id].paused())
	}
}

// sendPauses tells a lock manager that knows of nobody who is paused.
func (s *scheduler) sendPauses(ctx actor.Context, incarnation uint64) {
	pauses := &messages.SetLockPauses{Incarnation: incarnation}
	for _, id := range slices.Sorted(maps.Keys(s.paused)) {
		pauses.Ids = append(pauses.Ids, int64(id))
	}
	ctx.Send(s.config.Locks, pauses)
}
