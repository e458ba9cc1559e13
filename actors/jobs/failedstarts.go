package jobs

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// RetryLimit is with a job whose starts fail again and again while those of others
// succeed in between: the job is at fault then, and is failed. Where starts fail by
// chance, because the machine is at a limit, a job is started long before it has
// failed so often for so long. The zero value stands for DefaultPatience.
type RetryLimit struct {
	Tries int           // that fail
	Time  time.Duration // from the first of them to the last
}

// DefaultRetryLimit is with jobs that cannot be started.
func DefaultRetryLimit() RetryLimit { return RetryLimit{Tries: 5, Time: 10 * time.Second} }

// failedStartsMax bounds the jobs that are remembered. Beyond it all are forgotten, and
// counted from the beginning.
const failedStartsMax = 1000

// failedStarts are the jobs whose last start has failed.
type failedStarts struct {
	limit     RetryLimit
	successes uint64 // of all jobs, so far
	jobs      map[int64]failedStart
}

// failedStart is one of them. Invariant: between any two of tries another job was started.
type failedStart struct {
	tries     int
	since     time.Time // the first of them
	successes uint64    // when the last of them failed
}

// started: the process of a job may act.
func (s *failedStarts) started(id int64) {
	s.successes++
	delete(s.jobs, id)
}

// failed notes that a start has failed, and returns how many have if the job is at
// fault; else 0.
func (s *failedStarts) failed(id int64, now time.Time) int {
	job, known := s.jobs[id]
	if !known {
		job.since = now
	}
	if !known || job.successes < s.successes {
		job.tries++
	}
	job.successes = s.successes
	if job.tries >= s.limit.Tries && now.Sub(job.since) >= s.limit.Time {
		delete(s.jobs, id)
		return job.tries
	}
	if s.jobs == nil || !known && len(s.jobs) >= failedStartsMax {
		s.jobs = map[int64]failedStart{}
	}
	s.jobs[id] = job
	return 0
}

// startFailed: no process could act on the job. Most often no other job would fare
// better (there is no program, no memory, no descriptor, no room on the disk), so
// that all starts wait, longer each time.
func (j *jobs) startFailed(ctx actor.Context, m *startFailed) {
	j.lastStartError = m.text
	if !j.startsPaused {
		j.startsPaused = true
		delay := kit.Backoff(j.consecutiveFailures)
		j.consecutiveFailures++
		j.config.Env.Log().WithFields(logrus.Fields{"job": m.id, "err": m.text, "again": delay}).Error(
			"job processes cannot be started; jobs wait until they can")
		kit.SendAfter(j.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryStarts{})
	}
	j.handshakeEnded(ctx, m.id)
}

func (j *jobs) retryStarts(ctx actor.Context) {
	j.startsPaused = false
	if len(j.waiting) == 0 {
		j.lastStartError = "" // nothing waits for it any more
	}
	j.startNext(ctx)
}

// startUndone gives the job back, unless it is the job itself that cannot be
// started.
func (j *jobs) startUndone(ctx actor.Context, m *startUndone) {
	h := j.active[m.id]
	if h == nil {
		return
	}
	if tries := j.failedStarts.failed(m.id, j.config.Env.Clock().Now()); tries > 0 {
		ctx.Send(h.pid, &failJob{fmt.Sprintf(" (%d times, while other jobs were started)", tries)})
		return
	}
	j.handshakeEnded(ctx, m.id)
	delete(j.active, m.id)
	ctx.Stop(h.pid)
	ctx.Send(j.config.Queue, &messages.JobReturned{Id: m.id})
	if m.priority != nil {
		ctx.Send(j.config.Queue, &messages.OrderJob{Id: m.id, Kind: messages.OrderJob_SET_PRIORITY, Priority: int32(*m.priority)})
	}
	j.returnOrders(ctx, h)
}
