package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/sched"
	"lockstep/messages"
)

// A job's position is found by looking at the jobs before it: at most searchMax for one
// job, and at most searchTotal for all jobs of one request, which takes a few ms.
const (
	searchMax   = 5_000
	searchTotal = 50_000
)

// explainJobs answers what holds jobs back, and in which cycle of waits each is. An unknown job has no reasons.
func (s *scheduler) explainJobs(ctx actor.Context, m *messages.ExplainJobs) {
	result := &messages.ExplainJobsResult{Request: m.Request}
	search := min(searchMax, searchTotal/max(len(m.Ids), 1))
	cycles := s.cycles()
	for _, id := range m.Ids {
		if s.state != nil {
			s.settle(ctx, job.ID(id))
		}
		reasons := s.reasons(job.ID(id), search)
		result.Jobs = append(result.Jobs, &messages.JobExplanation{Id: id, Reasons: reasons, Cycle: s.cycleFor(cycles, job.ID(id), reasons)})
	}
	ctx.Respond(result)
}

// slotsTaken is 0 until the jobs are known.
func (s *scheduler) slotsTaken() int64 {
	if s.state == nil {
		return 0
	}
	return int64(s.state.SlotsInUse())
}

func (s *scheduler) reasons(id job.ID, search int) []*messages.Reason {
	if s.state == nil || s.jobs[id] == nil {
		return nil
	}
	return s.blockReasons(s.jobs[id], search)
}

func (s *scheduler) blockReasons(j *scheduledJob, search int) []*messages.Reason {
	var all []*messages.Reason
	if j.hold != nil {
		all = append(all, &messages.Reason{Kind: &messages.Reason_Hold{Hold: j.hold}})
	}
	for _, d := range s.graph.Unmet(j.id) {
		op, statuses := j.wantedEnd(d)
		all = append(all, &messages.Reason{Kind: &messages.Reason_Dependency{Dependency: &messages.DependencyReason{
			Opcode: int32(op), Job: d.Job, Statuses: statuses, Unknown: s.unknownOutcomes[job.ID(d.Job)]}}})
	}
	if verb := filter.VerbOf(j.verdict); verb == filter.Pause || verb == filter.Reject {
		all = append(all, &messages.Reason{Kind: &messages.Reason_Filter{Filter: j.verdict}})
	}
	if j.due != nil && !j.running && !s.isDue(j) {
		all = append(all, &messages.Reason{Kind: &messages.Reason_Due{Due: j.due}})
	}
	w, candidate := s.state.Explain(j.id, s.config.Env.Clock().Now(), search)
	if !candidate {
		return all
	}
	for _, full := range w.FullLimits {
		all = append(all, limitReason(j, full))
	}
	if w.Running >= w.Slots {
		slots := &messages.SlotsReason{Slots: int64(w.Slots), Running: int64(w.Running)}
		all = append(all, &messages.Reason{Kind: &messages.Reason_Slots{Slots: slots}})
	}
	return append(all, &messages.Reason{Kind: &messages.Reason_Order{Order: s.orderReason(w)}})
}

// limitReason tells a filter rule's limit from a rate limit of the reason trail by its key.
func limitReason(j *scheduledJob, full sched.FullLimit) *messages.Reason {
	limit, running := int64(full.N), int64(full.Running)
	if j.verdict != nil && full.Key == j.verdict.Rule {
		r := &messages.FilterLimitReason{Verdict: j.verdict, Limit: limit, Running: running}
		return &messages.Reason{Kind: &messages.Reason_FilterLimit{FilterLimit: r}}
	}
	r := &messages.RateLimitReason{Label: full.Key, Limit: limit, Running: running}
	return &messages.Reason{Kind: &messages.Reason_RateLimit{RateLimit: r}}
}

func (s *scheduler) orderReason(w sched.Explanation) *messages.OrderReason {
	r := &messages.OrderReason{
		Position:     int64(w.Position),
		Pending:      int64(s.state.Len()),
		AtLeast:      w.PositionIsMinimum,
		Predictive:   w.Predictive,
		Weight:       w.Weight,
		StaticWeight: w.StaticWeight,
		AgeTicks:     w.AgeTicks,
		BigLock:      w.BGL,
	}
	r.Reserves, r.ReservedBy = w.Reserves, int64(w.ReservedBy)
	r.ReservationsBefore, r.NothingPromised = int64(w.ReservationsBefore), w.LessUrgent
	r.BlockedBy, r.OtherBlockers = lockBlockers(w.BlockedBy), int64(w.OtherBlockers)
	for _, c := range w.Causes {
		cause := &messages.WeightCause{Value: c.Value, Level: int32(c.Level), How: int32(c.ClaimKind), Others: int64(c.OtherOwners),
			Named: c.Owner.Named, Owner: c.Owner.Name, Job: int64(c.Owner.Job)}
		if c.Lock != (lock.Lock{}) {
			cause.Lock = c.Lock.String()
		}
		r.Causes = append(r.Causes, cause)
	}
	return r
}

func lockBlockers(list []sched.Blocker) []*messages.LockBlocker {
	var all []*messages.LockBlocker
	for _, b := range list {
		blocker := &messages.LockBlocker{
			Named:      b.Owner.Named,
			Owner:      b.Owner.Name,
			Job:        int64(b.Owner.Job),
			Livelock:   b.Owner.Livelock,
			Pid:        int64(b.Owner.PID),
			OtherLocks: int64(b.OtherLocks),
			Holds:      b.Holds,
		}
		for _, l := range b.Locks {
			blocker.Locks = append(blocker.Locks, l.String())
		}
		all = append(all, blocker)
	}
	return all
}

// blockedMax is how many of the first candidates ListDependencies looks at. Each takes some microseconds.
const blockedMax = 200

// dependencies answers which jobs wait for which others, and with Blocked in which way their processes do, and which jobs are not started
// because of locks.
func (s *scheduler) dependencies(ctx actor.Context, m *messages.ListDependencies) {
	answer := &messages.ListDependenciesResult{Request: m.Request}
	for _, w := range s.graph.WaitingJobs() {
		waiting := &messages.JobDependencies{Id: int64(w.ID)}
		for _, d := range w.Unmet {
			waiting.On = append(waiting.On, &messages.JobDependency{Job: d.Job, Statuses: d.Statuses})
		}
		answer.Jobs = append(answer.Jobs, waiting)
	}
	switch {
	case s.state == nil:
	case m.Blocked:
		answer.Jobs = append(answer.Jobs, s.processWaits()...)
		answer.Blocked = s.lockBlockedJobs(s.state.BlockedByLocks(blockedMax, s.config.Env.Clock().Now()))
	case m.Marked:
		answer.Blocked = s.lockBlockedJobs(s.state.MarkedByLocks())
	}
	ctx.Respond(answer)
}

// lockBlockedJobs are jobs that are not started because of locks, with the locks and who has them.
func (s *scheduler) lockBlockedJobs(list []sched.BlockedJob) []*messages.LockBlockedJob {
	var all []*messages.LockBlockedJob
	for _, b := range list {
		blocked := &messages.LockBlockedJob{
			Id:         int64(b.ID),
			Priority:   b.Priority,
			ReceivedUs: s.jobs[b.ID].receivedUs,
			BlockedBy:  lockBlockers(b.BlockedBy),
		}
		for _, i := range b.Wanted {
			blocked.Wanted = append(blocked.Wanted, &messages.WantedLock{Lock: i.Lock.String(), Exclusive: i.Mode == lock.Exclusive})
		}
		all = append(all, blocked)
	}
	return all
}
