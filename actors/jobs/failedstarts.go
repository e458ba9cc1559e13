package jobs

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// RetryLimit says when a job fails because it cannot be started: after Tries failed starts
// over at least Time, if processes got their permission in between. Where starts fail at random,
// because the machine is at a limit, a job is started long before it reaches this limit.
// The zero value stands for DefaultRetryLimit.
type RetryLimit struct {
	Tries int           // failed starts
	Time  time.Duration // between the first and the last of them
}

// DefaultRetryLimit is the limit if Config has none.
func DefaultRetryLimit() RetryLimit { return RetryLimit{Tries: 5, Time: 10 * time.Second} }

// failedStartsMax bounds the number of jobs in failedStarts. Above it all counts are
// dropped.
const failedStartsMax = 1000

// failedStarts are the jobs whose last start failed. A start whose process has its permission may still
// fail: the process may end before it begins the job.
type failedStarts struct {
	limit     RetryLimit
	successes uint64 // processes with a permission so far, of all jobs
	jobs      map[int64]failedStart
}

// failedStart counts the failed starts of one job. Invariant: between any two counted
// failures a process got its permission.
type failedStart struct {
	tries     int
	since     time.Time // time of the first failure
	successes uint64    // failedStarts.successes at the last failure
}

// forget drops the count of a job that has ended.
func (s *failedStarts) forget(id int64) { delete(s.jobs, id) }

// failed counts a failed start of a job. It returns the number of failures if they reach the limits of number and time, and forgets them;
// else 0. Failures between two successes of other jobs count once.
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

// startFailed pauses all starts after one has failed, longer after each failure, because
// the cause (no program, memory, descriptor or disk space) mostly affects all jobs.
func (j *jobs) startFailed(ctx actor.Context, m *startFailed) {
	known := j.lastStartError == m.text
	j.lastStartError = m.text
	if !j.startsPaused {
		j.startsPaused = true
		delay := kit.Backoff(j.consecutiveFailures)
		j.consecutiveFailures++
		if !known { // the retries say nothing new
			j.config.Env.Log().WithFields(logrus.Fields{"job": m.id, "err": m.text}).
				Error("job process cannot be started; all starts wait and are tried again")
		}
		kit.SendAfter(j.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryStarts{})
	}
	// Last: it starts the next job, unless the pause above forbids it.
	j.handshakeEnded(ctx, m.id)
}

func (j *jobs) retryStarts(ctx actor.Context) {
	j.startsPaused = false
	if len(j.waiting) == 0 {
		j.lastStartError = "" // no job waits for a start
	}
	j.startNext(ctx)
}

// startUndone returns the job to the queue, and with it the orders that it could not carry out, or fails it if its failures reach the
// limit. The actor of a returned job stops.
func (j *jobs) startUndone(ctx actor.Context, m *startUndone) {
	h := j.active[m.id]
	if h == nil {
		return
	}
	if !m.calledOff {
		if tries := j.failedStarts.failed(m.id, j.config.Env.Clock().Now()); tries > 0 {
			ctx.Send(h.pid, &failJob{fmt.Sprintf(" (%d times, while processes were started)", tries)})
			return
		}
	}
	j.handshakeEnded(ctx, m.id)
	// Out of the list before its actor stops, which childStopped would take for a crash.
	delete(j.active, m.id)
	ctx.Stop(h.pid)
	// The queue gets the job back before the priority and the other orders: it carries them out itself only on a pending job. Those about
	// an active job it would send back to this actor.
	ctx.Send(j.config.Queue, &messages.JobReturned{Id: m.id, Encoded: m.encoded})
	if m.priority != nil {
		ctx.Send(j.config.Queue, &messages.OrderJob{Id: m.id, Kind: messages.OrderJob_SET_PRIORITY, Priority: int32(*m.priority)})
	}
	j.returnOrders(ctx, h)
	j.settleCallOffs(ctx, m.id, j.lastOrder)
}
