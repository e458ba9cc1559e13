package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/dependency"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/sched"
	"lockstep/messages"
)

// scheduledJob is a job that has not ended. op is the next opcode to run, or the one
// that runs.
type scheduledJob struct {
	id         job.ID
	priority   int
	receivedUs int64
	encoded    []byte
	op         int
	depends    map[int][]opcode.Dependency // by opcode; nil for most jobs
	limits     []sched.Limit               // those of its reason trails
	verdict    *messages.Verdict           // nil: accepted

	decoded       *job.Job          // decoded, while it is being taken in
	expected      *lock.Declaration // what all its opcodes lock, while it has no process: rules may change often
	waitPublished bool              // the queue knows that it is held by dependencies

	running   bool              // it has a process, or is about to
	adopted   bool              // it had one when the population was told, and perhaps no slot
	openBegin *messages.BeginOp // the question of its process that has no answer yet
	requester *actor.PID
}

// add takes a job in, in the place of what was known of it.
func (s *scheduler) add(w *messages.UnfinishedJob) *scheduledJob {
	j, err := job.Decode(w.Encoded)
	if err != nil {
		s.config.Env.Log().WithField("err", err).Error("invalid job received from the queue")
		return nil
	}
	known := &scheduledJob{id: j.ID, priority: j.Priority(), receivedUs: j.Received.Sec*1e6 + j.Received.Usec,
		encoded: w.Encoded, decoded: j, op: nextOp(j), limits: sched.ReasonLimits(j), verdict: w.Verdict}
	for i := range j.Ops {
		deps, err := opcode.Depends(j.Ops[i].Input)
		if err != nil || len(deps) == 0 {
			continue // an opcode that is none will fail by itself
		}
		if known.depends == nil {
			known.depends = map[int][]opcode.Dependency{}
		}
		known.depends[i] = deps
	}
	s.jobs[j.ID] = known
	return known
}

// nextOp is the first opcode that has not ended.
func nextOp(j *job.Job) int {
	for i := range j.Ops {
		if !j.Ops[i].Status.Final() {
			return i
		}
	}
	return len(j.Ops) - 1
}

// declarations is what the opcode at hand is expected to lock, and those after it.
func (j *scheduledJob) declarations(s *scheduler) (current, later lock.Declaration) {
	decoded := j.decoded
	if decoded == nil {
		var err error
		if decoded, err = job.Decode(j.encoded); err != nil {
			return current, later // it was decoded before
		}
	}
	for i := j.op; i < len(decoded.Ops); i++ {
		d := s.config.Catalogue.Declare(decoded.Ops[i].Input, s.resources)
		if i == j.op {
			current = d
		} else {
			later = lock.Merge(later, d)
		}
	}
	return current, later
}

// candidate is the job as one that may be picked.
func (j *scheduledJob) candidate(s *scheduler) sched.Candidate {
	declared := j.expected
	if declared == nil {
		all := lock.Merge(j.declarations(s))
		declared = &all
	}
	if !j.running {
		j.expected = declared
	}
	return sched.Candidate{ID: j.id, Priority: j.priority, ReceivedUs: j.receivedUs, Declared: *declared, Limits: j.allLimits()}
}

// allLimits are those of the job itself and that of the rule that applies.
func (j *scheduledJob) allLimits() []sched.Limit {
	if filter.VerbOf(j.verdict) != filter.RateLimit {
		return j.limits
	}
	return append(j.limits[:len(j.limits):len(j.limits)], sched.Limit{Key: j.verdict.Rule, N: int(j.verdict.Limit)})
}

// declare tells what a running job is expected to lock, opcode by opcode.
func (s *scheduler) declare(j *scheduledJob) {
	current, later := j.declarations(s)
	s.state.SetDeclared(j.id, current, later)
}

func (j *scheduledJob) paused() bool { return filter.VerbOf(j.verdict) == filter.Pause }

// consider decides whether the next opcode of a job may run, as soon as there is
// a slot: that of a job that waits for its start, or for permission to go on.
func (s *scheduler) consider(ctx actor.Context, j *scheduledJob) {
	eligible := s.eligible(ctx, j)
	s.publishDependencyWait(ctx, j)
	if !eligible {
		s.state.Withdraw(j.id)
		s.state.Yield(j.id)
		return
	}
	if j.adopted && j.openBegin != nil && (s.state.SlotsInUse() > s.state.Settings().Slots || s.state.LimitsExceeded(j.allLimits())) {
		s.state.Yield(j.id) // some that were found had given their slots, or their places in limits, away
	}
	switch {
	case !j.running, s.state.Yielded(j.id):
		s.state.Enqueue(j.candidate(s))
	default: // it has its slot
		j.adopted = false
		s.answerBegin(ctx, j, &messages.BeginOpResult{})
	}
}

// publishDependencyWait has a job that is held by dependencies shown so.
func (s *scheduler) publishDependencyWait(ctx actor.Context, j *scheduledJob) {
	if waits := !j.running && len(s.graph.Unmet(j.id)) > 0; waits != j.waitPublished {
		j.waitPublished = waits
		ctx.Send(s.config.Queue, &messages.DependencyWaitChanged{Id: int64(j.id), Waiting: waits})
	}
}

func (s *scheduler) eligible(ctx actor.Context, j *scheduledJob) bool {
	if deps := j.depends[j.op]; deps != nil && len(s.graph.Unmet(j.id)) == 0 {
		v := s.graph.Add(j.id, j.op, deps, s.knownStatus)
		for _, id := range v.Lookups {
			ctx.Request(s.config.Queue, &messages.GetJobOutcome{Id: int64(id)})
		}
		if v.State == dependency.Unrunnable {
			s.endUnrunnable(ctx, j, v)
			return false
		}
	}
	switch {
	case len(s.graph.Unmet(j.id)) > 0, j.paused():
		return false
	case filter.VerbOf(j.verdict) == filter.Reject:
		return j.running // the queue cancels those that wait; the others go on
	default:
		return true
	}
}

// knownStatus: a job that is here has not ended.
func (s *scheduler) knownStatus(id job.ID) (job.Status, dependency.Lookup) {
	if s.jobs[id] != nil {
		return job.Queued, dependency.Found
	}
	return job.Queued, dependency.Unknown
}

// dependenciesResolved acts on what the end of a job has decided about others.
func (s *scheduler) dependenciesResolved(ctx actor.Context, verdicts []dependency.Decision) {
	for _, v := range verdicts {
		j := s.jobs[v.ID]
		switch {
		case j == nil:
		case v.State == dependency.Unrunnable:
			s.endUnrunnable(ctx, j, v)
		case v.State == dependency.Ready:
			j.dependenciesMet(v.Op)
			s.consider(ctx, j)
		}
	}
}

// dependenciesMet: the dependencies of an opcode need not be looked at again.
func (j *scheduledJob) dependenciesMet(op int) { delete(j.depends, op) }

// endUnrunnable: a job that has not begun is ended by the queue; the process of one that
// has is told to end it.
func (s *scheduler) endUnrunnable(ctx actor.Context, j *scheduledJob, v dependency.Decision) {
	canceled := v.End == job.Canceled
	if !j.running {
		s.state.Withdraw(j.id)
		ctx.Send(s.config.Queue, &messages.EndUnrunnableJob{Id: int64(j.id), Canceled: canceled, Text: v.Cause.String()})
		return
	}
	s.answerBegin(ctx, j, &messages.BeginOpResult{Denied: true, Canceled: canceled, Text: v.Cause.String()})
}

// beginOp: the process of a job asks for permission to begin an opcode, perhaps
// not for the first time.
func (s *scheduler) beginOp(ctx actor.Context, m *messages.BeginOp, sender *actor.PID) {
	if s.state == nil {
		s.deferred = append(s.deferred, deferredBegin{m, sender})
		return
	}
	j := s.jobs[job.ID(m.Id)]
	if j == nil {
		ctx.Send(sender, &messages.BeginOpResult{Request: m.Request, Failure: messages.JobLostFailure("The scheduler does not know the job")})
		return
	}
	moved := j.op != int(m.Op)
	j.op, j.openBegin, j.requester, j.running = int(m.Op), m, sender, true
	s.setPause(ctx, j.id, j.paused())
	if moved {
		s.declare(j)
	}
	s.consider(ctx, j)
}

// answerBegin answers the question of a job's process, if there is one.
func (s *scheduler) answerBegin(ctx actor.Context, j *scheduledJob, a *messages.BeginOpResult) {
	if j.openBegin == nil {
		return
	}
	a.Request = j.openBegin.Request
	ctx.Send(j.requester, a)
	j.openBegin, j.requester = nil, nil
}

// priorityChanged: a job that has a process waits for a slot at this priority, now
// if it waits already.
func (s *scheduler) priorityChanged(ctx actor.Context, m *messages.PriorityChanged) {
	if s.state == nil {
		return // the population says so
	}
	j := s.jobs[job.ID(m.Id)]
	if j == nil {
		return
	}
	j.priority = int(m.Priority)
	if j.openBegin != nil {
		s.consider(ctx, j)
	}
}

// verdictsChanged: the rules are others now, for these jobs.
func (s *scheduler) verdictsChanged(ctx actor.Context, m *messages.VerdictsChanged) {
	if s.state == nil {
		return
	}
	for _, v := range m.Verdicts {
		j := s.jobs[job.ID(v.Id)]
		if j == nil {
			continue
		}
		j.verdict = v
		if v.Rule == "" {
			j.verdict = nil
		}
		if !j.running {
			s.consider(ctx, j)
			continue
		}
		s.state.SetLimits(j.id, j.allLimits())
		s.setPause(ctx, j.id, j.paused())
		if j.openBegin != nil {
			s.consider(ctx, j)
		}
	}
}
