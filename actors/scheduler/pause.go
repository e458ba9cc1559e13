package scheduler

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

// setPause tells the lock manager that an active job is paused, or no longer paused. A job whose process does not ask before an
// opcode gets a number with each pause: its requests for locks stay pending.
func (s *scheduler) setPause(ctx actor.Context, j *scheduledJob, pause bool) {
	if _, paused := s.paused[j.id]; paused == pause {
		return
	}
	m := &messages.SetLockPause{Id: int64(j.id), Paused: pause}
	if j.waitsForLocks = false; !pause {
		delete(s.paused, j.id)
	} else {
		if !j.asks {
			s.lastPause++
			m.Withhold = s.lastPause
		}
		s.paused[j.id] = m.Withhold
	}
	ctx.Send(s.config.Locks, m)
}

// syncPause pauses a job that must begin no opcode. One that does not ask is also paused while it waits for a run slot, or does
// without one.
func (s *scheduler) syncPause(ctx actor.Context, j *scheduledJob) {
	s.setPause(ctx, j, j.barred() || !j.asks && (j.waitsForLocks && s.state.Yielded(j.id) || s.exceeds(j)))
}

// forgetPause ends the pause of a job that is not active any more.
func (s *scheduler) forgetPause(ctx actor.Context, id job.ID) {
	if _, paused := s.paused[id]; paused {
		delete(s.paused, id)
		ctx.Send(s.config.Locks, &messages.SetLockPause{Id: int64(id)})
	}
}

// syncPauses brings the pauses of all running jobs up to date after the jobs were loaded again: verdicts may have changed meanwhile. The
// pauses of jobs that do not run are forgotten.
func (s *scheduler) syncPauses(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(s.paused)) {
		if j := s.jobs[id]; j == nil || !j.running {
			s.forgetPause(ctx, id)
		}
	}
	for _, id := range s.state.RunningIDs() {
		s.syncPause(ctx, s.jobs[id])
	}
}

// sendPauses sends all paused jobs to a lock manager that has started.
func (s *scheduler) sendPauses(ctx actor.Context, incarnation uint64) {
	pauses := &messages.SetLockPauses{Incarnation: incarnation}
	for _, id := range slices.Sorted(maps.Keys(s.paused)) {
		if number := s.paused[id]; number > 0 {
			pauses.Withheld = append(pauses.Withheld, &messages.SetLockPause{Id: int64(id), Paused: true, Withhold: number})
		} else {
			pauses.Ids = append(pauses.Ids, int64(id))
		}
	}
	ctx.Send(s.config.Locks, pauses)
}

// lockRequestWithheld takes it that the lock manager withholds a request of a job. So its process, which does not ask before an
// opcode, executes none, and begins none until the end of this pause. It gives its run slot back.
func (s *scheduler) lockRequestWithheld(ctx actor.Context, id job.ID, pause uint64) {
	j := s.jobs[id]
	if number, paused := s.paused[id]; j == nil || !paused || number != pause {
		return // it is about an earlier pause
	}
	j.waitsForLocks = true
	s.answerBeginWaits(ctx, j)
	if filter.VerbOf(j.verdict) == filter.Reject {
		ctx.Send(s.config.Queue, &messages.OrderJob{Id: int64(id), Kind: messages.OrderJob_CANCEL, Rejection: j.verdict})
	}
	s.consider(ctx, j)
}

// getBeginWait answers whether the process of a job waits for a permission that the job does not get: a BeginOp, or for a
// process that does not ask the locks of its next opcode. That answer may come later: the lock manager is asked.
func (s *scheduler) getBeginWait(ctx actor.Context, m *messages.GetBeginWait) {
	j := s.jobs[job.ID(m.Id)]
	if j != nil && j.running && !j.asks && j.barred() && !j.waitsForLocks {
		j.beginWaits = append(j.beginWaits, beginWait{m.Request, ctx.Sender()})
		return
	}
	ctx.Respond(&messages.GetBeginWaitResult{Request: m.Request, Waits: j != nil && j.barred() && (j.openBegin != nil || j.waitsForLocks)})
}

// beginWait is a GetBeginWait without an answer.
type beginWait struct {
	request uint64
	sender  *actor.PID
}

func (s *scheduler) answerBeginWaits(ctx actor.Context, j *scheduledJob) {
	for _, w := range j.beginWaits {
		ctx.Send(w.sender, &messages.GetBeginWaitResult{Request: w.request, Waits: true})
	}
	j.beginWaits = nil
}
