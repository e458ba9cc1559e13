package scheduler

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/job"
	"lockstep/messages"
)

const (
	// sliceWork is the work between two messages, in steps of about 20 ns: 5 ms.
	sliceWork = 250_000
	// decodeWork and decodedPerStep are the work of decoding a job and computing its demand, and the bytes that are decoded in one step.
	decodeWork, decodedPerStep = 500, 2
)

// backlog is the jobs that are to be decoded: new ones, and those that a rule has held back until now. They are decoded some at a time, so
// that messages in between wait for one slice only. A message about one of them finds it: it is decoded then.
type backlog struct {
	arrived map[job.ID]*messages.UnfinishedJob // new jobs, which are not in scheduler.jobs, or are replaced there
	// order has the jobs of arrived and those that are backlogged, in order of arrival, and others that were dealt with.
	order     []job.ID
	waits     kit.Deferred[*messages.AwaitJobs] // requests that have to know all jobs
	scheduled bool                              // continueBacklog is on its way
}

// continueBacklog is sent by the scheduler to itself for the next slice.
type continueBacklog struct{}

// add adds a new job.
func (b *backlog) add(w *messages.UnfinishedJob) {
	if b.arrived == nil {
		b.arrived = map[job.ID]*messages.UnfinishedJob{}
	}
	b.arrived[job.ID(w.Id)] = w
	b.order = append(b.order, job.ID(w.Id))
}

// addKnown adds a job that was decoded before, unless it is there.
func (b *backlog) addKnown(j *scheduledJob) {
	if !j.backlogged {
		j.backlogged = true
		b.order = append(b.order, j.id)
	}
}

// busy reports whether there may be jobs that are not decoded.
func (b *backlog) busy() bool { return len(b.order) > 0 }

// continueBacklog makes a slice, unless the next one is on its way.
func (s *scheduler) continueBacklog(ctx actor.Context) {
	if !s.backlog.scheduled {
		s.workOff(ctx)
	}
}

// workOff works off one slice of the backlog. The rest follows in a message to itself; at the end the questions that wait are answered.
func (s *scheduler) workOff(ctx actor.Context) {
	b := &s.backlog
	work := cmp.Or(s.config.SliceWork, sliceWork)
	for ; len(b.order) > 0 && work > 0; b.order = b.order[1:] {
		work -= 1 + s.settle(ctx, b.order[0])
	}
	if b.busy() {
		b.scheduled = true
		ctx.Send(ctx.Self(), &continueBacklog{})
		return
	}
	b.order = nil
	s.backlog.waits.HandleAll(ctx, s.awaitJobs)
}

// settle decodes a job of the backlog, and returns the work that it took. The state must be known.
func (s *scheduler) settle(ctx actor.Context, id job.ID) (work int) {
	if w := s.backlog.arrived[id]; w != nil {
		delete(s.backlog.arrived, id)
		if j := s.add(w); j != nil {
			s.consider(ctx, j)
			j.decoded = nil
		}
		return decodeWork + len(w.Encoded)/decodedPerStep
	}
	if j := s.jobs[id]; j != nil && j.backlogged {
		s.consider(ctx, j)
		return decodeWork + len(j.encoded)/decodedPerStep
	}
	return 0
}

// arrivedJob is a job, which is decoded if it is new; nil if it is not known.
func (s *scheduler) arrivedJob(ctx actor.Context, id job.ID) *scheduledJob {
	if s.backlog.arrived[id] != nil {
		s.settle(ctx, id)
	}
	return s.jobs[id]
}

// dropBacklog forgets the backlog when all jobs are asked for again.
func (s *scheduler) dropBacklog(ctx actor.Context) {
	s.backlog.arrived, s.backlog.order = nil, nil
	s.backlog.waits.HandleAll(ctx, s.awaitJobs)
}
