package queue

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/record"
	"lockstep/messages"
)

// handleVerdicts handles the messages of the filter engine, and ReachOp, which is for it.
func (q *queue) handleVerdicts(ctx actor.Context, message any) {
	switch m := message.(type) {
	case *messages.FiltersStarted:
		q.requestAllVerdicts(ctx)
	case *messages.EvaluateFiltersResult:
		q.verdictsReceived(ctx, m)
	case *messages.VerdictsChanged:
		q.takeVerdicts(ctx, m)
	case *messages.ReachOp:
		ctx.Request(q.config.Filters, m)
	case *messages.ReachOpResult:
		q.opReached(ctx, m)
	}
}

// evaluateGroup asks the filters about the jobs that are being committed. The answer starts the writes.
func (q *queue) evaluateGroup(ctx actor.Context) {
	var jobs []*messages.UnfinishedJob
	for _, s := range q.submissions.committing() {
		for i, j := range s.jobs {
			jobs = append(jobs, &messages.UnfinishedJob{Id: int64(j.ID), Encoded: s.encoded[i], Name: s.records[i].Name()})
		}
	}
	ctx.Request(q.config.Filters, q.verdicts.ask(jobs))
}

// requestAllVerdicts asks a filter engine that has started about all jobs that are not
// final, with those that are being committed. It repeats the question about the group,
// which the former filter engine may not have answered.
func (q *queue) requestAllVerdicts(ctx actor.Context) {
	q.verdicts.allRequested = true
	m := &messages.EvaluateFilters{Jobs: q.index.unfinished()}
	for _, s := range q.submissions.prepared() {
		for i, j := range s.jobs {
			if !j.Status().Final() {
				m.Jobs = append(m.Jobs, &messages.UnfinishedJob{Id: int64(j.ID), Encoded: s.encoded[i], Name: s.records[i].Name()})
			}
		}
	}
	ctx.Request(q.config.Filters, m)
	if q.verdicts.open != nil {
		ctx.Request(q.config.Filters, q.verdicts.open)
	}
}

func (q *queue) verdictsReceived(ctx actor.Context, m *messages.EvaluateFiltersResult) {
	switch {
	case q.verdicts.answersAll(m):
		q.verdictsChanged(ctx, q.verdicts.completed(m.Verdicts))
		if request := q.verdicts.takeScheduler(); request != 0 {
			// The scheduler has waited for the verdicts: without them it would start jobs that a rule pauses.
			q.sendUnfinishedJobs(ctx, request)
		}
		q.callOffByRules(ctx, m.Verdicts, q.tellTaken(m.Taken))
	case q.verdicts.answersGroup(m):
		q.inSlices(ctx, q.rejectInGroup(), func(ctx actor.Context) { q.perform(ctx, q.submissions.group.start()) })
	}
}

// rejectInGroup is the step that cancels the jobs of the group that the rules reject.
// They are written as canceled, before the client receives their ids (design.md "Differences").
func (q *queue) rejectInGroup() step {
	open, next := q.submissions.committing(), 0
	return func(_ actor.Context, work *int) bool {
		for len(open) > 0 {
			s := open[0]
			for ; next < len(s.jobs); next++ {
				j := s.jobs[next]
				v := q.verdicts.of[int64(j.ID)]
				if filter.VerbOf(v) != filter.Reject {
					continue
				}
				if *work <= 0 {
					return false
				}
				*work -= buildWork + len(s.encoded[next])/builtPerStep
				record.Reject(j, v.Rule, v.Reason, q.now())
				s.encoded[next] = job.Encode(j)
				s.infos[next] = q.newInfo(j, s.encoded[next], s.records[next])
			}
			open, next = open[1:], 0
		}
		return true
	}
}

func (q *queue) appendReason(j *job.Job, source, text string) {
	j.AppendReason(func(int) string { return source }, func(int) string { return text }, q.now())
}

// verdictsChanged passes new verdicts to the scheduler, and cancels pending jobs that
// are rejected now.
func (q *queue) verdictsChanged(ctx actor.Context, m *messages.VerdictsChanged) {
	q.verdicts.change(m.Verdicts)
	ctx.Send(q.config.Scheduler, m)
	for _, v := range m.Verdicts {
		if e := q.index.get(v.Id); filter.VerbOf(v) == filter.Reject && e != nil && e.stage == pending {
			q.rejectPending(ctx, e, v)
		}
	}
}

// opReached takes the verdict on a job that has come to an opcode, and passes it to the scheduler, which lets the job begin the opcode
// after that.
func (q *queue) opReached(ctx actor.Context, m *messages.ReachOpResult) {
	changed := []*messages.Verdict{m.Verdict}
	q.verdictsChanged(ctx, &messages.VerdictsChanged{Verdicts: changed})
	if m.Request != 0 {
		ctx.Send(q.config.Scheduler, m)
		return
	}
	q.callOffByRules(ctx, changed, func(actor.Context) {})
}

func (q *queue) rejectPending(ctx actor.Context, e *entry, v *messages.Verdict) {
	reject := func(j *job.Job) { record.Reject(j, v.Rule, v.Reason, q.now()) }
	q.rewrite(ctx, e, "reject-job", q.records.get(v.Id), reject, q.logEndNotWritten(v.Id))
}

// unfinishedJob returns a pending job for the scheduler; nil if a rule rejects it, and
// then its cancellation has begun.
func (q *queue) unfinishedJob(ctx actor.Context, e *entry) *messages.UnfinishedJob {
	v := q.verdicts.of[e.info.Id]
	if filter.VerbOf(v) == filter.Reject {
		q.rejectPending(ctx, e, v)
		return nil
	}
	return q.asUnfinished(e)
}

// forgetVerdict drops the verdict on a job that has ended or was not recorded, here and
// in the filter engine.
func (q *queue) forgetVerdict(ctx actor.Context, id int64) {
	q.verdicts.forget(id)
	ctx.Send(q.config.Filters, &messages.ForgetJob{Id: id})
}
