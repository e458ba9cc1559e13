// Package scheduler is the actor that says which job may run next, and what holds
// back those that may not.
//
// It owns the order of the jobs that may run, the run slots, who waits for whose
// end, and the permission to begin the next opcode of a job. It is told by the
// queue who waits and who has left, by the lock manager who holds what, by the
// configuration's actor how it is to decide; it tells the queue whom it picks and
// who can never run, and the lock manager who may not be given locks. Nothing
// survives its crash, nor the queue's: it asks for everything again.
package scheduler

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/opcodes"
	"lockstep/core/config"
	"lockstep/core/dependency"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/sched"
	"lockstep/messages"
)

// Config is what the scheduler needs.
type Config struct {
	Env           *kit.Env
	Queue         *actor.PID
	Locks         *actor.PID
	ClusterConfig *actor.PID
	Catalogue     *opcode.Catalogue
	// Decided is told how long a look for the next jobs has taken; nil: nobody.
	Decided func(took time.Duration)
}

// Props makes the scheduler.
func Props(c Config) *actor.Props {
	request, catalogue := uint64(0), c.Catalogue
	return c.Env.Props("scheduler", func() actor.Actor {
		c.Catalogue = catalogue
		return &scheduler{config: c, catalogue: &catalogue, request: &request, settings: sched.Defaults(), paused: map[job.ID]bool{}, unknownOutcomes: map[job.ID]bool{}}
	})
}

type scheduler struct {
	config Config
	// request numbers the questions for the population, over all incarnations:
	// an answer to an earlier one is stale.
	request   *uint64
	catalogue **opcode.Catalogue // for the next incarnation

	configured bool
	lastConfig *messages.ConfigPublished // the last one that could be used
	settings   sched.Settings
	resources  *config.Resources

	state    *sched.State // nil until the population is known
	graph    dependency.Graph
	jobs     map[job.ID]*scheduledJob
	deferred []deferredBegin // questions from before
	// unknownOutcomes are the jobs of which this node does not know how they have ended, for
	// people to see.
	unknownOutcomes map[job.ID]bool

	paused map[job.ID]bool // those of whom the lock manager was told last that they are
}

// deferredBegin is a question that came before the population was known.
type deferredBegin struct {
	m      *messages.BeginOp
	sender *actor.PID
}

func (s *scheduler) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(s.config.ClusterConfig, &messages.PublishConfig{})
		s.requestJobs(ctx)
	case *messages.QueueStarted:
		s.requestJobs(ctx)
	case *messages.ConfigPublished:
		s.configChanged(ctx, m)
	case *messages.ListUnfinishedJobsResult:
		s.loadJobs(ctx, m)
	case *messages.EnqueueJobs:
		s.enqueue(ctx, m)
	case *messages.JobReleased:
		s.jobReleased(ctx, m)
	case *messages.GetJobOutcomeResult:
		s.jobOutcome(ctx, m)
	case *messages.VerdictsChanged:
		s.verdictsChanged(ctx, m)
	case *messages.PriorityChanged:
		s.priorityChanged(ctx, m)
	case *messages.BeginOp:
		s.beginOp(ctx, m, ctx.Sender())
	case *locks.Published:
		s.locksPublished(ctx, m)
	case *opcodes.Changed:
		s.opcodesChanged(m)
	case *messages.ExplainJobs:
		s.explainJobs(ctx, m)
	case *messages.ListDependencies:
		s.dependencies(ctx, m)
	default:
		kit.Unexpected(ctx)
	}
	s.pick(ctx)
}

// requestJobs begins anew, once it is known how to decide: what is told after the
// population must find it in force. Who waits for an answer does so still.
func (s *scheduler) requestJobs(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		if j := s.jobs[id]; j.openBegin != nil {
			s.deferred = append(s.deferred, deferredBegin{j.openBegin, j.requester})
		}
	}
	s.state, s.graph, s.jobs = nil, dependency.Graph{}, nil
	clear(s.unknownOutcomes)
	*s.request++ // also that of what a former incarnation has asked for
	if !s.configured {
		return
	}
	ctx.Request(s.config.Queue, &messages.ListUnfinishedJobs{Request: *s.request})
}

// configChanged takes the parameters; what jobs are expected to lock is worked
// out anew for those that come from now on.
func (s *scheduler) configChanged(ctx actor.Context, m *messages.ConfigPublished) {
	if s.configured && bytes.Equal(m.Content, s.lastConfig.Content) && bytes.Equal(m.Settings, s.lastConfig.Settings) {
		return // it comes as news and as an answer, and may be long
	}
	cluster, err := config.Decode(m.Content)
	settings, bad := config.DecodeSettings(m.Settings)
	resources, unusable := config.DecodeResources(m.Content)
	for _, err := range []error{err, bad, unusable} {
		if err != nil {
			s.config.Env.Log().WithFields(logrus.Fields{"err": err}).Error("configuration cannot be used; the scheduler keeps the former one")
			return
		}
	}
	s.settings = sched.Settings{Slots: cluster.MaxRunningJobs, Predictive: settings.Predictive,
		Base: settings.PredictiveBase, Tick: settings.PredictiveTick(), K: settings.PredictiveTicks}
	first := !s.configured
	s.resources, s.configured, s.lastConfig = resources, true, m
	if s.state != nil {
		s.state.SetSettings(s.settings)
	}
	if first {
		s.requestJobs(ctx)
	}
}

func (s *scheduler) loadJobs(ctx actor.Context, m *messages.ListUnfinishedJobsResult) {
	if m.Request != *s.request {
		return
	}
	s.state = sched.NewState(s.settings)
	s.graph, s.jobs = dependency.Graph{}, make(map[job.ID]*scheduledJob, len(m.Pending)+len(m.Active))
	for _, w := range m.Active {
		if j := s.add(w); j != nil {
			j.running, j.adopted = true, true
			s.state.AddRunning(j.candidate(s))
			s.declare(j)
			j.decoded = nil
		}
	}
	var pending []*scheduledJob
	for _, w := range m.Pending {
		if j := s.add(w); j != nil {
			pending = append(pending, j)
		}
	}
	for _, j := range pending {
		s.consider(ctx, j)
		j.decoded = nil
	}
	s.syncPauses(ctx)
	ctx.Request(s.config.Locks, &messages.PublishLocks{})
	waiting := s.deferred
	s.deferred = nil
	for _, e := range waiting {
		s.beginOp(ctx, e.m, e.sender)
	}
}

// What comes before the population is in the population.
func (s *scheduler) enqueue(ctx actor.Context, m *messages.EnqueueJobs) {
	if s.state == nil {
		return
	}
	for _, w := range m.Jobs {
		if j := s.add(w); j != nil {
			s.consider(ctx, j)
			j.decoded = nil
		}
	}
}

// jobReleased: a job has ended, has a process no more, or is being changed by the queue,
// which enqueues it again.
func (s *scheduler) jobReleased(ctx actor.Context, m *messages.JobReleased) {
	if s.state == nil {
		return
	}
	id := job.ID(m.Id)
	if j := s.jobs[id]; j != nil {
		s.answerBegin(ctx, j, &messages.BeginOpResult{Failure: messages.JobLostFailure("The job is over")})
		delete(s.jobs, id)
	}
	s.setPause(ctx, id, false)
	s.state.Remove(id)
	s.graph.Forget(id)
	if m.Ended {
		s.dependenciesResolved(ctx, s.graph.Ended(id, job.Status(m.Status)))
	}
}

// jobOutcome is what has become of a job that others depend on and that was not known.
func (s *scheduler) jobOutcome(ctx actor.Context, m *messages.GetJobOutcomeResult) {
	switch id := job.ID(m.Id); {
	case s.state == nil:
	case m.Unknown: // who depends on it waits
		s.unknownOutcomes[id] = true
	case m.Missing:
		s.dependenciesResolved(ctx, s.graph.Missing(id))
	default:
		s.dependenciesResolved(ctx, s.graph.Ended(id, job.Status(m.Status)))
	}
}

// locksPublished takes what the lock manager knows of owners.
func (s *scheduler) locksPublished(ctx actor.Context, m *locks.Published) {
	if s.state == nil {
		return
	}
	if m.Complete {
		s.state.ForgetOwners()
		s.sendPauses(ctx, m.Incarnation)
	}
	for _, r := range m.Records {
		var pending lock.Request
		if r.Pending != nil {
			pending = r.Pending.Request
		}
		s.state.SetOwnerLocks(r.Owner, r.Locks, pending)
	}
}

// opcodesChanged takes what operators have declared, for jobs that come from now on.
func (s *scheduler) opcodesChanged(m *opcodes.Changed) {
	s.config.Catalogue, *s.catalogue = m.Catalogue, m.Catalogue
}

func (s *scheduler) pick(ctx actor.Context) {
	if s.state == nil {
		return
	}
	began := s.config.Env.Clock().Now()
	picked := s.state.Pick(began)
	if s.config.Decided != nil && s.state.Len() > 0 {
		s.config.Decided(s.config.Env.Clock().Now().Sub(began))
	}
	for _, id := range picked {
		j := s.jobs[id]
		continues := j.running
		j.running, j.expected = true, nil
		s.declare(j)
		if continues {
			s.answerBegin(ctx, j, &messages.BeginOpResult{})
			continue
		}
		ctx.Send(s.config.Queue, &messages.PickJob{Id: int64(id)})
	}
}
