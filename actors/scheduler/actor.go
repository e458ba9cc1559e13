// Package scheduler is the actor that gives run slots to jobs.
//
// It owns the order of the jobs that may run and the slots that are taken. It
// is told by the queue who waits and who has left, and tells the queue whom it
// picks. Nothing survives its crash, nor the queue's: it asks the queue for the
// whole population again.
package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/act"
	"lockstep/actors/core/job"
	"lockstep/actors/core/sched"
	"lockstep/messages"
)

// Config is what the scheduler needs. MaxRunning is the number of run slots
// (max_running_jobs).
type Config struct {
	Env        *act.Env
	Queue      *actor.PID
	MaxRunning int
}

// Props makes the scheduler.
func Props(c Config) *actor.Props {
	epoch := uint64(0)
	return c.Env.Props("scheduler", func() actor.Actor { return &scheduler{config: c, epoch: &epoch} })
}

type scheduler struct {
	config Config
	// epoch numbers the questions for the population, over all incarnations:
	// an answer to an earlier one is stale.
	epoch *uint64
	state *sched.State // nil until the population is known
}

func (s *scheduler) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, *messages.QueueStarted:
		s.ask(ctx)
	case *messages.Population:
		s.populate(ctx, m)
	case *messages.EnqueueJobs:
		s.enqueue(ctx, m)
	case *messages.JobLeft:
		s.leave(ctx, m)
	default:
		act.Unexpected(ctx)
	}
}

func (s *scheduler) ask(ctx actor.Context) {
	*s.epoch++
	s.state = nil
	ctx.Request(s.config.Queue, &messages.SchedulerStarted{Epoch: *s.epoch})
}

func (s *scheduler) populate(ctx actor.Context, m *messages.Population) {
	if m.Epoch != *s.epoch {
		return
	}
	waiting := make([]sched.Pending, len(m.Pending))
	for i, p := range m.Pending {
		waiting[i] = pendingOf(p)
	}
	running := make([]job.ID, len(m.Running))
	for i, id := range m.Running {
		running[i] = job.ID(id)
	}
	s.state = sched.NewState(s.config.MaxRunning, waiting, running)
	s.pick(ctx)
}

// What comes before the population is in the population.
func (s *scheduler) enqueue(ctx actor.Context, m *messages.EnqueueJobs) {
	if s.state == nil {
		return
	}
	for _, p := range m.Jobs {
		s.state.Enqueue(pendingOf(p))
	}
	s.pick(ctx)
}

func (s *scheduler) leave(ctx actor.Context, m *messages.JobLeft) {
	if s.state == nil {
		return
	}
	s.state.Leave(job.ID(m.Id))
	s.pick(ctx)
}

func (s *scheduler) pick(ctx actor.Context) {
	for _, id := range s.state.Pick() {
		ctx.Send(s.config.Queue, &messages.PickJob{Id: int64(id)})
	}
}

func pendingOf(p *messages.PendingJob) sched.Pending {
	return sched.Pending{ID: job.ID(p.Id), Priority: int(p.Priority)}
}
