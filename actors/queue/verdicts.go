package queue

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/proto"

	"lockstep/actors/kit"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/rawjson"
	"lockstep/messages"
)

// Where the entries come from that the queue appends to the reason trail of a
// job that it ends (queue.md 3.6).
const (
	rejectSource     = "gnt:daemon:luxid:filter"
	dependencySource = "gnt:daemon:luxid:dependency"
)

// evaluateGroup asks what the rules make of the jobs that are being committed.
func (q *queue) evaluateGroup(ctx actor.Context) {
	q.evaluation++
	m := &messages.EvaluateFilters{Request: q.evaluation}
	for _, s := range q.group {
		for i, j := range s.jobs {
			m.Jobs = append(m.Jobs, &messages.UnfinishedJob{Id: int64(j.ID), Encoded: s.encoded[i]})
		}
	}
	q.openEvaluation = m
	ctx.Request(q.config.Filters, m)
}

// requestAllVerdicts tells a filter engine that has just started of all jobs that have
// not ended, those that are being committed too, and repeats what its predecessor
// may not have answered.
func (q *queue) requestAllVerdicts(ctx actor.Context) {
	q.allRequested = true
	m := &messages.EvaluateFilters{Jobs: make([]*messages.UnfinishedJob, 0, len(q.entries))}
	waiting := make([]messages.UnfinishedJob, len(q.entries)) // one allocation: who submits a job now waits for this
	for _, id := range q.order {
		if e := q.entries[id]; e != nil && e.stage != final {
			w := &waiting[len(m.Jobs)]
			w.Id, w.Encoded = id, e.info.Encoded
			m.Jobs = append(m.Jobs, w)
		}
	}
	for _, s := range q.group {
		for i, j := range s.jobs {
			if !j.Status().Final() {
				m.Jobs = append(m.Jobs, &messages.UnfinishedJob{Id: int64(j.ID), Encoded: s.encoded[i]})
			}
		}
	}
	ctx.Request(q.config.Filters, m)
	if q.openEvaluation != nil {
		ctx.Request(q.config.Filters, q.openEvaluation)
	}
}

func (q *queue) verdictsReceived(ctx actor.Context, m *messages.EvaluateFiltersResult) {
	switch {
	case m.Request == 0 && q.allRequested: // else a former incarnation has
		q.allVerdictsReceived(ctx, m)
	case q.openEvaluation != nil && m.Request == q.openEvaluation.Request:
		q.openEvaluation = nil
		q.groupVerdictsReceived(ctx, m)
	}
}

// allVerdictsReceived: the verdicts on all jobs are known. A job that is not named is
// accepted, whatever a former filter engine has said.
func (q *queue) allVerdictsReceived(ctx actor.Context, m *messages.EvaluateFiltersResult) {
	q.verdictsKnown = true
	accepted := maps.Clone(q.verdicts)
	for _, v := range m.Verdicts {
		delete(accepted, v.Id)
	}
	changed := &messages.VerdictsChanged{Verdicts: slices.Clone(m.Verdicts)}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		changed.Verdicts = append(changed.Verdicts, &messages.Verdict{Id: id})
	}
	q.verdictsChanged(ctx, changed)
	if request := q.schedulerRequest; request != 0 {
		q.schedulerRequest = 0
		q.sendUnfinishedJobs(ctx, request)
	}
}

// groupVerdictsReceived records a job that the rules reject as canceled, before its
// submitter hears of it (design.md 8).
func (q *queue) groupVerdictsReceived(ctx actor.Context, m *messages.EvaluateFiltersResult) {
	for _, v := range m.Verdicts {
		q.verdicts[v.Id] = v
	}
	for _, s := range q.group {
		for i, j := range s.jobs {
			if v := q.verdicts[int64(j.ID)]; filter.VerbOf(v) == filter.Reject {
				q.cancelRejectedJob(j, v)
				s.encoded[i] = job.Encode(j)
			}
		}
	}
	q.writeGroup(ctx)
}

// cancelRejectedJob ends a job that has not begun, and names the rule in its trail.
func (q *queue) cancelRejectedJob(j *job.Job, v *messages.Verdict) {
	text := "rejected by filter rule " + v.Rule
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	q.appendReason(j, rejectSource, text)
	j.CancelUnstarted(nil, q.now())
}

func (q *queue) appendReason(j *job.Job, source, text string) {
	j.AppendReason(func(int) string { return source }, func(int) string { return text }, q.now())
}

// verdictsChanged passes the news on, and cancels what is rejected now.
func (q *queue) verdictsChanged(ctx actor.Context, m *messages.VerdictsChanged) {
	for _, v := range m.Verdicts {
		if v.Rule == "" {
			delete(q.verdicts, v.Id)
		} else {
			q.verdicts[v.Id] = v
		}
	}
	ctx.Send(q.config.Scheduler, m)
	for _, v := range m.Verdicts {
		if e := q.entries[v.Id]; filter.VerbOf(v) == filter.Reject && e != nil && e.stage == pending {
			q.rejectPending(ctx, e, v)
		}
	}
}

func (q *queue) rejectPending(ctx actor.Context, e *entry, v *messages.Verdict) {
	q.rewrite(ctx, e, "reject-job", func(j *job.Job) { q.cancelRejectedJob(j, v) }, q.logEndNotWritten(v.Id))
}

// logEndNotWritten complains that the end of a job that waits could not be written. It
// is tried again: the job goes back to where it is found that it must end.
func (q *queue) logEndNotWritten(id int64) func(actor.Context, *messages.Failure) {
	return func(_ actor.Context, f *messages.Failure) {
		if f != nil {
			q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": f.Text}).Error("the end of a queued job cannot be written")
		}
	}
}

// unfinishedJob is a pending job for the scheduler; nil if a rule has come to reject it
// meanwhile.
func (q *queue) unfinishedJob(ctx actor.Context, e *entry) *messages.UnfinishedJob {
	v := q.verdicts[e.info.Id]
	if filter.VerbOf(v) == filter.Reject {
		q.rejectPending(ctx, e, v)
		return nil
	}
	return &messages.UnfinishedJob{Id: e.info.Id, Encoded: e.info.Encoded, Verdict: v}
}

// forgetVerdict: a job has ended, or was never recorded; no rule matters to it any more.
func (q *queue) forgetVerdict(ctx actor.Context, id int64) {
	delete(q.verdicts, id)
	ctx.Send(q.config.Filters, &messages.ForgetJob{Id: id})
}

// dependencyWaitChanged notes that a job waits for others, for all to see.
func (q *queue) dependencyWaitChanged(ctx actor.Context, m *messages.DependencyWaitChanged) {
	e := q.entries[m.Id]
	if e == nil || e.stage != pending || e.info.DependencyWait == m.Waiting {
		return
	}
	info := proto.CloneOf(e.info)
	info.DependencyWait = m.Waiting
	e.info = info
	q.notifySubscribers(ctx, e, info.Encoded)
}

// endUnrunnable ends a job that waits for another one in vain.
func (q *queue) endUnrunnable(ctx actor.Context, m *messages.EndUnrunnableJob) {
	e := q.entries[m.Id]
	if e == nil || e.stage != pending {
		return // it comes back to the scheduler, or has ended otherwise
	}
	q.rewrite(ctx, e, "doom-job", func(j *job.Job) {
		q.appendReason(j, dependencySource, m.Text)
		if m.Canceled {
			j.CancelUnstarted(rawjson.Quote("Job canceled: "+m.Text), q.now())
		} else {
			j.FailUnfinished(job.ErrorResult("OpExecError", "Dependency error: "+m.Text), q.now())
		}
	}, q.logEndNotWritten(m.Id))
}

// outcomeRetryPause is the pause before an archived job is read again that could not be.
const outcomeRetryPause = time.Second

// jobOutcome tells the scheduler what has become of a job that it does not know.
func (q *queue) jobOutcome(ctx actor.Context, id int64) {
	e := q.entries[id]
	switch {
	case e != nil && (e.stage == final || e.stage == changing && e.status().Final()): // the latter is being archived
		ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Status: e.info.Status})
	case e != nil: // its end will be told
	case id <= 0 || id > q.serial:
		ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Missing: true})
	default:
		q.archivedOutcome(ctx, id)
	}
}

// retryOutcome has an archived job looked at again that could not be read.
func (q *queue) retryOutcome(ctx actor.Context, id int64, f *messages.Failure) {
	q.config.Env.Log().WithField("job", id).Error(fmt.Sprintf("an archived job, for which others wait, cannot be read: %s", f.Text))
	kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), outcomeRetryPause, ctx.Self(), &messages.GetJobOutcome{Id: id})
}

// archivedOutcome is that of a job that was archived, or never recorded. What the
// records say holds on every node. A node that is alone has the whole archive but for
// what was removed; in a cluster another one may have what this one lacks.
func (q *queue) archivedOutcome(ctx actor.Context, id int64) {
	if status, known := q.endOf(id); known {
		ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Status: int32(status)})
		return
	}
	q.readArchivedStatus(ctx, "outcome", id, func(ctx actor.Context, status job.Status, known bool, f *messages.Failure) {
		switch {
		case f != nil:
			q.retryOutcome(ctx, id, f)
		case known:
			ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Status: int32(status)})
			q.recordEnds(ctx, []end{{id, status}}, func(_ actor.Context, failed map[int64]*messages.Failure) { q.logEndsNotRecorded(failed) })
		case q.config.Shared:
			q.config.Env.Log().WithField("job", id).Warn("a job for which others wait is not known on this node, nor how it has ended; they wait until another node knows, or until they are canceled")
			ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Unknown: true})
		default:
			ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Missing: true})
		}
	})
}
