package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
)

// notDue is a job that is not due before a time.
type notDue struct {
	id job.ID
	at time.Time
}

// dueOrder puts the job that is due first before the others.
type dueOrder struct{}

func (dueOrder) Before(a, b notDue) bool {
	return a.at.Before(b.at) || a.at.Equal(b.at) && a.id < b.id
}

func (dueOrder) Moved(notDue, int) {}

// isDue reports whether a job may start as far as the time is concerned. A job that has a process has started. One that is not due is
// considered again when it is.
func (s *scheduler) isDue(j *scheduledJob) bool {
	if j.due == nil || j.running {
		return true
	}
	at := time.UnixMicro(j.due.DueUs)
	if !s.config.Env.Clock().Now().Before(at) {
		return true
	}
	if !j.timed {
		j.timed = true
		s.notDue.Push(notDue{j.id, at})
	}
	return false
}

// notDueJobs are the jobs that only wait for their time, in the order of these times.
func (s *scheduler) notDueJobs() (ids []job.ID) {
	waiting := slices.DeleteFunc(slices.Clone(s.notDue.Items()), func(n notDue) bool {
		j := s.jobs[n.id]
		return j == nil || !j.timed || j.due.DueUs != n.at.UnixMicro() || j.barred()
	})
	slices.SortFunc(waiting, func(a, b notDue) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	for _, n := range waiting {
		ids = append(ids, n.id)
	}
	return ids
}

// takeDue considers the jobs that have become due. One that has left, or has another time, is only forgotten.
func (s *scheduler) takeDue(ctx actor.Context, now time.Time) {
	for s.notDue.Len() > 0 && !now.Before(s.notDue.First().at) {
		first := s.notDue.Pop()
		if j := s.jobs[first.id]; j != nil && j.timed && j.due.DueUs == first.at.UnixMicro() {
			j.timed = false
			s.consider(ctx, j)
		}
	}
}
