package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/dependency"
	"lockstep/core/durations"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/record"
	"lockstep/core/sched"
	"lockstep/messages"
)

// scheduledJob is an unfinished job. op is the index of the running opcode, or of the next
// one.
type scheduledJob struct {
	id         job.ID
	name       string // what the submitter calls it, "" for none
	priority   int
	receivedUs int64
	encoded    []byte
	op         int
	depends    map[int][]opcode.Dependency // by opcode; nil for most jobs
	asks       bool                        // its process asks before each opcode
	limits     []sched.Limit               // of its reason trails
	verdict    *messages.Verdict           // nil: accepted
	hold       *messages.HoldReason        // nil: not held
	due        *messages.DueReason         // nil: it may start at once. It has no meaning while the job has a process
	timed      int                         // its place in scheduler.notDue, from 1; 0: it is not there

	decoded    *job.Job           // only while the job is being added
	expected   *demand            // of a job without a process; kept because rules may change often
	backlogged bool               // it is in the backlog, because a rule does not hold it back any more
	shown      messages.StartWait // what the queue was sent that the job waits for

	beganUs   int64             // when its process may have begun the opcode, in microseconds since 1970; 0: not known
	running   bool              // it has a process or is being started
	adopted   bool              // it was active in ListUnfinishedJobsResult, and may have no slot
	openBegin *messages.BeginOp // the unanswered BeginOp of its process
	requester *actor.PID
	judgedOp  int    // the opcode to which the verdict applies: rules may be about the locks of an opcode
	reaching  uint64 // request of the open ReachOp; 0: none is open
	ruleWas   string // that applied when it was sent

	waitsForLocks bool        // its process does not ask, and the lock manager withholds its request
	beginWaits    []beginWait // until then
}

// add adds a job, or replaces what is known of it. It returns nil, and logs an error, if the job cannot be decoded.
func (s *scheduler) add(w *messages.UnfinishedJob) *scheduledJob {
	j, err := job.Decode(w.Encoded)
	if err != nil {
		s.config.Env.Log().WithField("err", err).Error("invalid job received from the queue")
		return nil
	}
	known := &scheduledJob{id: j.ID, name: w.Name, priority: j.Priority(), receivedUs: j.Received.Sec*1e6 + j.Received.Usec,
		encoded: w.Encoded, decoded: j, op: j.FirstUnfinished(), limits: sched.ReasonLimits(j), verdict: w.Verdict, shown: w.Wait}
	if w.DueUs > 0 {
		known.due = &messages.DueReason{DueUs: w.DueUs, Try: w.Try}
		known.receivedUs = max(known.receivedUs, w.DueUs) // its age counts from then on
	}
	if w.Held {
		known.hold = &messages.HoldReason{By: w.HeldBy}
	}
	for i := range j.Ops {
		deps, err := opcode.Depends(j.Ops[i].Input)
		if err != nil || len(deps) == 0 {
			continue // an invalid opcode fails in the job process
		}
		if known.depends == nil {
			known.depends = map[int][]opcode.Dependency{}
		}
		known.depends[i] = deps
	}
	known.asks = !s.config.GanetiJobs || (*s.catalogue).OriginOf(j) != opcode.OfGaneti
	if !known.asks {
		known.awaitAllEnds()
	}
	s.dropDue(s.jobs[j.ID])
	s.jobs[j.ID] = known
	return known
}

// awaitAllEnds moves the dependencies of later opcodes to the next one. The process of the job does not ask before a later
// opcode, and would wait for a dependency in its run slot. So it is started when all of them are final. Only the next
// opcode must be met: the process itself compares the statuses of the others, when it has run the opcodes before them.
func (j *scheduledJob) awaitAllEnds() {
	all := j.depends[j.op]
	for _, op := range slices.Sorted(maps.Keys(j.depends)) {
		if op <= j.op {
			continue
		}
		for _, d := range j.depends[op] {
			all = append(all, opcode.Dependency{Job: d.Job, Statuses: finalStatuses()})
		}
	}
	j.depends = nil
	if len(all) > 0 {
		j.depends = map[int][]opcode.Dependency{j.op: all}
	}
}

// wantedEnd is the opcode that waits for a dependency of the job, and the statuses that it wants: awaitAllEnds makes other ones of them.
func (j *scheduledJob) wantedEnd(d opcode.Dependency) (op int, statuses []string) {
	if j.asks {
		return j.op, d.Statuses
	}
	decoded := j.decoded
	if decoded == nil {
		var err error
		if decoded, err = job.Decode(j.encoded); err != nil {
			return j.op, d.Statuses // decoded before
		}
	}
	for i := j.op; i < len(decoded.Ops); i++ {
		deps, _ := opcode.Depends(decoded.Ops[i].Input)
		for _, wanted := range deps {
			if wanted.Job == d.Job && (i > j.op || slices.Equal(wanted.Statuses, d.Statuses)) {
				return i, wanted.Statuses
			}
		}
	}
	return j.op, d.Statuses
}

// finalStatuses are met by every end of a job.
func finalStatuses() []string {
	return []string{job.Success.String(), job.Error.String(), job.Canceled.String()}
}

// declarations is the demand of the next opcode, and the joined demand of the opcodes after it.
func (j *scheduledJob) declarations(s *scheduler) (current, later lock.Declaration) {
	decoded := j.decoded
	if decoded == nil {
		var err error
		if decoded, err = job.Decode(j.encoded); err != nil {
			return current, later // computed before
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

// demand is what sched is told of the locks of the job and of its duration.
type demand struct {
	declared lock.Declaration
	expected time.Duration
}

// demand computes the demand of the opcodes that have not ended: in the order Expected the locks of the next one.
func (j *scheduledJob) demand(s *scheduler) *demand {
	decoded := j.decoded
	if decoded == nil {
		var err error
		if decoded, err = job.Decode(j.encoded); err != nil {
			return &demand{} // computed before
		}
	}
	if s.settings.Order != sched.Expected {
		return &demand{declared: lock.Merge(j.declarations(s))}
	}
	d := &demand{declared: s.config.Catalogue.Declare(decoded.Ops[j.op].Input, s.resources)}
	for i := j.op; i < len(decoded.Ops); i++ {
		d.expected += s.learned.table.Expect(durations.KindOf(decoded.Ops[i].Input, j.name)).Median
	}
	return d
}

// candidate is the job as sched sees it. The demand of a job that does not run is kept.
func (j *scheduledJob) candidate(s *scheduler) sched.Candidate {
	d := j.expected
	switch {
	case j.waitsForLocks:
		d = &demand{} // which opcode it is at is not known here; it waits for locks in its process, as under Ganeti's daemons
	case d == nil:
		d = j.demand(s)
	}
	if !j.running {
		j.expected = d
	}
	return sched.Candidate{
		ID:         j.id,
		Priority:   j.priority,
		ReceivedUs: j.receivedUs,
		Declared:   d.declared,
		Expected:   d.expected,
		Limits:     j.allLimits(),
	}
}

// allLimits are the limits of the job's reason trails and of the rule that applies.
func (j *scheduledJob) allLimits() []sched.Limit {
	if filter.VerbOf(j.verdict) != filter.RateLimit {
		return j.limits
	}
	return append(j.limits[:len(j.limits):len(j.limits)], sched.Limit{Key: j.verdict.Rule, N: int(j.verdict.Limit)})
}

// declare computes the demand of an active job for each opcode.
func (s *scheduler) declare(j *scheduledJob) {
	current, later := j.declarations(s)
	s.state.SetDeclared(j.id, current, later)
}

// paused reports whether the job must begin no opcode for now: a rule pauses it, or an operator holds it. No rule overrides a
// hold.
func (j *scheduledJob) paused() bool {
	return j.hold != nil || filter.VerbOf(j.verdict) == filter.Pause
}

// barred reports whether the process of the job must begin no opcode, for now or because a rule rejects the job.
func (j *scheduledJob) barred() bool { return j.paused() || filter.VerbOf(j.verdict) == filter.Reject }

// consider decides whether the next opcode of a job may run once there is a slot. The job waits for its start, or for the permission to
// go on. A running job that may not go on gives its slot back.
func (s *scheduler) consider(ctx actor.Context, j *scheduledJob) {
	j.backlogged = false
	if j.openBegin != nil && j.judgedOp != j.op {
		s.askVerdict(ctx, j)
		return
	}
	if !s.eligible(ctx, j) {
		s.state.Withdraw(j.id)
		s.state.Yield(j.id)
		s.showWait(ctx, j)
		return
	}
	if (j.openBegin != nil || j.waitsForLocks) && s.exceeds(j) {
		s.state.Yield(j.id)
	}
	if j.openBegin != nil && s.hasSlot(j) && s.mayGiveSlotBack(j) &&
		s.state.GivesSlotBack(j.candidate(s), s.config.Env.Clock().Now()) {
		s.state.Yield(j.id)
	}
	switch {
	case !j.running:
		s.state.Enqueue(j.candidate(s))
		if j.shown == messages.StartWait_FOR_LOCKS { // until the start, also after a change of the job or a restart of this actor
			s.state.RestoreMark(j.id)
		}
		s.showWait(ctx, j)
	case s.state.Yielded(j.id):
		s.state.Enqueue(j.candidate(s))
	default: // it has its slot
		if j.openBegin != nil {
			j.beganUs = s.config.Env.Clock().Now().UnixMicro()
		}
		s.mayGoOn(ctx, j)
	}
}

// mayGoOn permits the process of a job, which has a slot, to begin its next opcode.
func (s *scheduler) mayGoOn(ctx actor.Context, j *scheduledJob) {
	j.adopted = false
	s.syncPause(ctx, j)
	s.answerBegin(ctx, j, &messages.BeginOpResult{})
}

// exceeds reports whether a job exceeds the slots or a limit, because it was adopted without a slot.
func (s *scheduler) exceeds(j *scheduledJob) bool {
	return j.adopted && (s.state.SlotsInUse() > s.state.Settings().Slots || s.state.LimitsExceeded(j.allLimits()))
}

// mayGiveSlotBack reports whether a job that asks to begin an opcode was not started for this opcode by a reservation.
func (s *scheduler) mayGiveSlotBack(j *scheduledJob) bool {
	return j.op > 0 || j.adopted || !s.state.HadReservation(j.id)
}

// showWait tells the queue what a job without a process waits for, if that has changed. A job that has been picked is
// shown as before, until its process reports.
func (s *scheduler) showWait(ctx actor.Context, j *scheduledJob) {
	if j.running {
		return
	}
	wait := messages.StartWait_NOT_WAITING
	switch {
	case len(s.graph.Unmet(j.id)) > 0:
		wait = messages.StartWait_FOR_JOBS
	case s.state.HasMark(j.id):
		wait = messages.StartWait_FOR_LOCKS
	}
	if wait != j.shown {
		j.shown = wait
		ctx.Send(s.config.Queue, &messages.StartWaitChanged{Id: int64(j.id), Wait: wait})
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
	if filter.VerbOf(j.verdict) == filter.Reject { // the queue cancels it if it has no process, or one that does not ask
		s.answerBegin(ctx, j, &messages.BeginOpResult{Denied: true, Canceled: true, Text: record.Rejection(j.verdict.Rule, j.verdict.Reason)})
	}
	return len(s.graph.Unmet(j.id)) == 0 && !j.barred() && s.isDue(j)
}

// knownStatus looks up a job: an unfinished job has no outcome yet.
func (s *scheduler) knownStatus(id job.ID) (job.Status, dependency.Lookup) {
	if s.jobs[id] != nil || s.backlog.arrived[id] != nil {
		return job.Queued, dependency.Found
	}
	return job.Queued, dependency.Unknown
}

// dependenciesResolved acts on the dependencies that the end of a job has decided.
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

// dependenciesMet drops the dependencies of an opcode of a job.
func (j *scheduledJob) dependenciesMet(op int) { delete(j.depends, op) }

// endUnrunnable ends a job whose dependency cannot be met: through the queue if it is
// pending, else by denying its process the permission.
func (s *scheduler) endUnrunnable(ctx actor.Context, j *scheduledJob, v dependency.Decision) {
	canceled := v.End == job.Canceled
	if !j.running {
		s.state.Withdraw(j.id)
		end := &messages.EndUnrunnableJob{Id: int64(j.id), Canceled: canceled, Text: v.Cause.String()}
		if v.Cause.Kind == dependency.WrongStatus {
			end.Cause, end.Status = v.Cause.Dependency.Job, int32(v.Cause.Status)
		}
		ctx.Send(s.config.Queue, end)
		return
	}
	s.answerBegin(ctx, j, &messages.BeginOpResult{Denied: true, Canceled: canceled, Text: v.Cause.String()})
}

// beginOp handles the request of a job process to begin an opcode: it is answered when the opcode may begin. A request that is repeated
// after its answer is ignored, and one that comes before the jobs are known waits.
func (s *scheduler) beginOp(ctx actor.Context, m *messages.BeginOp, sender *actor.PID) {
	if s.answered.has(m, sender) {
		return
	}
	if s.state == nil {
		s.deferred.Add(m, sender)
		return
	}
	j := s.jobs[job.ID(m.Id)]
	if j == nil {
		ctx.Send(sender, &messages.BeginOpResult{Request: m.Request, Failure: messages.JobLostFailure("The scheduler does not know the job")})
		return
	}
	moved := j.op != int(m.Op)
	j.op, j.openBegin, j.requester, j.running = int(m.Op), m, sender, true
	s.syncPause(ctx, j)
	if moved {
		s.declare(j)
	}
	s.consider(ctx, j)
}

// askVerdict asks for the verdict on a job at the opcode that its process wants to begin.
func (s *scheduler) askVerdict(ctx actor.Context, j *scheduledJob) {
	if j.reaching == 0 {
		s.lastReached++
		j.reaching, j.ruleWas = s.lastReached, j.verdict.GetRule()
		ctx.Request(s.config.Queue, &messages.ReachOp{Request: j.reaching, Id: int64(j.id), Op: int32(j.op)})
	}
}

// hasSlot reports whether a job runs and has not given its slot back.
func (s *scheduler) hasSlot(j *scheduledJob) bool {
	return s.state.Running(j.id) && !s.state.Yielded(j.id)
}

// opReached continues with a job whose verdict at its next opcode has come, as VerdictsChanged before this message. A job that comes
// under a new limit, which is exceeded, gives up its run slot.
func (s *scheduler) opReached(ctx actor.Context, m *messages.ReachOpResult) {
	j := s.jobs[job.ID(m.Verdict.GetId())]
	if j == nil || j.reaching != m.Request {
		return
	}
	j.reaching, j.judgedOp = 0, j.op
	isNewLimit := filter.VerbOf(j.verdict) == filter.RateLimit && j.verdict.Rule != j.ruleWas
	if isNewLimit && s.hasSlot(j) && s.state.LimitsExceeded(j.allLimits()) {
		s.state.Yield(j.id) // it waits for a place in the limit under which it comes
	}
	s.consider(ctx, j)
}

// answerBegin answers the open BeginOp of a job, if there is one, and remembers that for repetitions.
func (s *scheduler) answerBegin(ctx actor.Context, j *scheduledJob, a *messages.BeginOpResult) {
	if j.openBegin == nil {
		return
	}
	a.Request = j.openBegin.Request
	ctx.Send(j.requester, a)
	s.answered.add(j.id, j.requester, a.Request)
	j.openBegin, j.requester = nil, nil
}

// priorityChanged sets the priority at which an active job competes for its next slot.
func (s *scheduler) priorityChanged(ctx actor.Context, m *messages.PriorityChanged) {
	if s.state == nil {
		return // ListUnfinishedJobsResult will have the priority
	}
	j := s.arrivedJob(ctx, job.ID(m.Id))
	if j == nil {
		return
	}
	j.priority = int(m.Priority)
	if j.openBegin != nil || j.waitsForLocks {
		s.consider(ctx, j)
	}
}

// verdictsChanged takes the new verdicts on these jobs, and considers each job again.
func (s *scheduler) verdictsChanged(ctx actor.Context, m *messages.VerdictsChanged) {
	if s.state == nil {
		return
	}
	for _, v := range m.Verdicts {
		j := s.arrivedJob(ctx, job.ID(v.Id))
		if j == nil {
			continue
		}
		j.verdict = v
		if v.Rule == "" {
			j.verdict = nil
		}
		if !j.running && !j.barred() && j.expected == nil { // it has to be decoded
			s.backlog.addKnown(j)
			continue
		}
		s.reconsider(ctx, j)
	}
	s.continueBacklog(ctx)
}

// reconsider acts on a new verdict on a job, or on a hold or release.
func (s *scheduler) reconsider(ctx actor.Context, j *scheduledJob) {
	if !j.running {
		s.consider(ctx, j)
		return
	}
	s.state.SetLimits(j.id, j.allLimits())
	s.syncPause(ctx, j)
	if j.openBegin != nil || j.waitsForLocks {
		s.consider(ctx, j)
	}
}

// holdChanged takes a hold or a release of a job, and considers the job again.
func (s *scheduler) holdChanged(ctx actor.Context, m *messages.HoldChanged) {
	if s.state == nil {
		return // ListUnfinishedJobsResult will have it
	}
	j := s.arrivedJob(ctx, job.ID(m.Id))
	if j == nil {
		return
	}
	j.hold = nil
	if m.Held {
		j.hold = &messages.HoldReason{By: m.By}
	}
	s.reconsider(ctx, j)
}
