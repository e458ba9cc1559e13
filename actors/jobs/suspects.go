package jobs

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// Patience is with a job whose starts fail again and again while those of others
// succeed in between: the job is at fault then, and is failed. Where starts fail by
// chance, because the machine is at a limit, a job is started long before it has
// failed so often for so long. The zero value stands for DefaultPatience.
type Patience struct {
	Tries int           // that fail
	Time  time.Duration // from the first of them to the last
}

// DefaultPatience is with jobs that cannot be started.
func DefaultPatience() Patience { return Patience{Tries: 5, Time: 10 * time.Second} }

// suspectsMax bounds the jobs that are remembered. Beyond it all are forgotten, and
// counted from the beginning.
const suspectsMax = 1000

// suspects are the jobs whose last start has failed.
type suspects struct {
	patience  Patience
	successes uint64 // of all jobs, so far
	jobs      map[int64]suspect
}

// suspect is one of them. Invariant: between any two of tries another job was started.
type suspect struct {
	tries     int
	since     time.Time // the first of them
	successes uint64    // when the last of them failed
}

// started: the process of a job may act.
func (s *suspects) started(id int64) {
	s.successes++
	delete(s.jobs, id)
}

// failed notes that a start has failed, and returns how many have if the job is at
// fault; else 0.
func (s *suspects) failed(id int64, now time.Time) int {
	job, known := s.jobs[id]
	if !known {
		job.since = now
	}
	if !known || job.successes < s.successes {
		job.tries++
	}
	job.successes = s.successes
	if job.tries >= s.patience.Tries && now.Sub(job.since) >= s.patience.Time {
		delete(s.jobs, id)
		return job.tries
	}
	if s.jobs == nil || !known && len(s.jobs) >= suspectsMax {
		s.jobs = map[int64]suspect{}
	}
	s.jobs[id] = job
	return 0
}

// startBroken: no process could act on the job. Most often no other job would fare
// better (there is no program, no memory, no descriptor, no room on the disk), so
// that all starts wait, longer each time.
func (j *jobs) startBroken(ctx actor.Context, m *startBroken) {
	j.trouble = m.text
	if !j.paused {
		j.paused = true
		delay := kit.Backoff(j.failures)
		j.failures++
		j.config.Env.Log().WithFields(logrus.Fields{"job": m.id, "err": m.text, "again": delay}).Error(
			"job processes cannot be started; jobs wait until they can")
		kit.SendAfter(j.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &startAgain{})
	}
	j.handshakeOver(ctx, m.id)
}

func (j *jobs) startAgain(ctx actor.Context) {
	j.paused = false
	if len(j.waiting) == 0 {
		j.trouble = "" // nothing waits for it any more
	}
	j.startNext(ctx)
}

// cannotSpawn gives the job back, unless it is the job itself that cannot be
// started.
func (j *jobs) cannotSpawn(ctx actor.Context, m *cannotSpawn) {
	h := j.hands[m.id]
	if h == nil {
		return
	}
	if tries := j.suspects.failed(m.id, j.config.Env.Clock().Now()); tries > 0 {
		ctx.Send(h.pid, &giveUpStart{fmt.Sprintf(" (%d times, while other jobs were started)", tries)})
		return
	}
	j.handshakeOver(ctx, m.id)
	delete(j.hands, m.id)
	ctx.Stop(h.pid)
	ctx.Send(j.config.Queue, &messages.JobReturned{Id: m.id})
	if m.priority != nil {
		ctx.Send(j.config.Queue, &messages.ChangePriority{Id: m.id, Priority: int32(*m.priority)})
	}
	j.giveBackWishes(ctx, h)
}
