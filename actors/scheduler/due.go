package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
)

// lookAgain bounds the sleep until a job is due: the clock may be set, or the machine suspended, meanwhile.
const lookAgain = time.Minute

// dueOrder puts the job that is due first before the others. A job has its place in the heap, from 1.
type dueOrder struct{}

func (dueOrder) Before(a, b *scheduledJob) bool {
	return a.due.DueUs < b.due.DueUs || a.due.DueUs == b.due.DueUs && a.id < b.id
}

func (dueOrder) Moved(j *scheduledJob, index int) { j.timed = index + 1 }

// dueAt is when a job that has a due time may start.
func (j *scheduledJob) dueAt() time.Time { return time.UnixMicro(j.due.DueUs) }

// isDue reports whether a job may start as far as the time is concerned. A job that has a process has started. One that is not due is
// considered again when it is.
func (s *scheduler) isDue(j *scheduledJob) bool {
	if j.due == nil || j.running || !s.config.Env.Clock().Now().Before(j.dueAt()) {
		return true
	}
	if j.timed == 0 {
		s.notDue.Push(j)
	}
	return false
}

// notDueJobs are the jobs that only wait for their time, in the order of these times.
func (s *scheduler) notDueJobs() (ids []job.ID) {
	waiting := slices.DeleteFunc(slices.Clone(s.notDue.Items()), func(j *scheduledJob) bool { return j.barred() })
	slices.SortFunc(waiting, func(a, b *scheduledJob) int { return cmp.Or(a.dueAt().Compare(b.dueAt()), cmp.Compare(a.id, b.id)) })
	for _, j := range waiting {
		ids = append(ids, j.id)
	}
	return ids
}

// dropDue forgets the time of a job that leaves, or is replaced.
func (s *scheduler) dropDue(j *scheduledJob) {
	if j != nil && j.timed > 0 {
		s.notDue.Remove(j.timed - 1)
		j.timed = 0
	}
}

// takeDue considers the jobs that have become due.
func (s *scheduler) takeDue(ctx actor.Context, now time.Time) {
	for s.notDue.Len() > 0 && !now.Before(s.notDue.First().dueAt()) {
		j := s.notDue.Pop()
		j.timed = 0
		s.consider(ctx, j)
	}
}
