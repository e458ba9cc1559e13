package scheduler

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/messages"
)

// setPause tells the lock manager that an active job is paused, or no longer paused.
func (s *scheduler) setPause(ctx actor.Context, id job.ID, pause bool) {
	if s.paused[id] == pause {
		return
	}
	if delete(s.paused, id); pause {
		s.paused[id] = true
	}
	ctx.Send(s.config.Locks, &messages.SetLockPause{Id: int64(id), Paused: pause})
}

// syncPauses does this for all jobs after a restart, during which verdicts may have
// changed.
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

// sendPauses sends all paused jobs to a restarted lock manager.
func (s *scheduler) sendPauses(ctx actor.Context, incarnation uint64) {
	pauses := &messages.SetLockPauses{Incarnation: incarnation}
	for _, id := range slices.Sorted(maps.Keys(s.paused)) {
		pauses.Ids = append(pauses.Ids, int64(id))
	}
	ctx.Send(s.config.Locks, pauses)
}
