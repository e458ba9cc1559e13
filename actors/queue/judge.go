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
	"lockstep/core/job"
	"lockstep/messages"
)

// Where the entries come from that the queue appends to the reason trail of a
// job that it ends (queue.md 3.6).
const (
	rejectSource = "gnt:daemon:luxid:filter"
	doomSource   = "gnt:daemon:luxid:dependency"
)

// What rules do that concerns the queue.
const (
	reject = "REJECT"
	pause  = "PAUSE"
)

// judgeGroup asks what the rules make of the jobs that are being committed.
func (q *queue) judgeGroup(ctx actor.Context) {
	q.judging++
	m := &messages.JudgeJobs{Request: q.judging}
	for _, s := range q.group {
		for i, j := range s.jobs {
			m.Jobs = append(m.Jobs, &messages.WaitingJob{Id: int64(j.ID), Encoded: s.encoded[i]})
		}
	}
	q.unjudged = m
	ctx.Request(q.config.Filters, m)
}

// askAboutAll tells a filter engine that has just started of all jobs that have
// not ended, those that are being committed too, and repeats what its predecessor
// may not have answered.
func (q *queue) askAboutAll(ctx actor.Context) {
	q.asked = true
	m := &messages.JudgeJobs{Jobs: make([]*messages.WaitingJob, 0, len(q.entries))}
	waiting := make([]messages.WaitingJob, len(q.entries)) // one allocation: who submits a job now waits for this
	for _, id := range q.order {
		if e := q.entries[id]; e != nil && e.place != final {
			w := &waiting[len(m.Jobs)]
			w.Id, w.Encoded = id, e.info.Encoded
			m.Jobs = append(m.Jobs, w)
		}
	}
	for _, s := range q.group {
		for i, j := range s.jobs {
			if !j.Status().Final() {
				m.Jobs = append(m.Jobs, &messages.WaitingJob{Id: int64(j.ID), Encoded: s.encoded[i]})
			}
		}
	}
	ctx.Request(q.config.Filters, m)
	if q.unjudged != nil {
		ctx.Request(q.config.Filters, q.unjudged)
	}
}

func (q *queue) jobsJudged(ctx actor.Context, m *messages.JobsJudged) {
	switch {
	case m.Request == 0 && q.asked: // else a former incarnation has
		q.allJudged(ctx, m)
	case q.unjudged != nil && m.Request == q.unjudged.Request:
		q.unjudged = nil
		q.groupJudged(ctx, m)
	}
}

// allJudged: the verdicts on all jobs are known. A job that is not named is
// accepted, whatever a former filter engine has said.
func (q *queue) allJudged(ctx actor.Context, m *messages.JobsJudged) {
	q.judged = true
	accepted := maps.Clone(q.verdicts)
	for _, v := range m.Verdicts {
		delete(accepted, v.Id)
	}
	changed := &messages.VerdictsChanged{Verdicts: slices.Clone(m.Verdicts)}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		changed.Verdicts = append(changed.Verdicts, &messages.Verdict{Id: id})
	}
	q.verdictsChanged(ctx, changed)
	if epoch := q.populace; epoch != 0 {
		q.populace = 0
		q.populate(ctx, epoch)
	}
}

// groupJudged records a job that the rules reject as canceled, before its
// submitter hears of it (design.md 8).
func (q *queue) groupJudged(ctx actor.Context, m *messages.JobsJudged) {
	for _, v := range m.Verdicts {
		q.verdicts[v.Id] = v
	}
	for _, s := range q.group {
		for i, j := range s.jobs {
			if v := q.verdicts[int64(j.ID)]; v != nil && v.Action == reject {
				q.rejected(j, v)
				s.encoded[i] = job.Encode(j)
			}
		}
	}
	q.writeGroup(ctx)
}

// rejected ends a job that has not begun, and names the rule in its trail.
func (q *queue) rejected(j *job.Job, v *messages.Verdict) {
	text := "rejected by filter rule " + v.Rule
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	q.explain(j, rejectSource, text)
	j.CancelUnstarted(nil, q.now())
}

func (q *queue) explain(j *job.Job, source, text string) {
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
		if e := q.entries[v.Id]; v.Action == reject && e != nil && e.place == pending {
			q.rejectPending(ctx, e, v)
		}
	}
}

func (q *queue) rejectPending(ctx actor.Context, e *entry, v *messages.Verdict) {
	q.rewrite(ctx, e, "reject-job", func(j *job.Job) { q.rejected(j, v) }, q.notWritten(v.Id))
}

// notWritten complains that the end of a job that waits could not be written. It
// is tried again: the job goes back to where it is found that it must end.
func (q *queue) notWritten(id int64) func(actor.Context, *messages.Failure) {
	return func(_ actor.Context, f *messages.Failure) {
		if f != nil {
			q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": f.Text}).Error("the end of a queued job cannot be written")
		}
	}
}

// waiting is a pending job for the scheduler; nil if a rule has come to reject it
// meanwhile.
func (q *queue) waiting(ctx actor.Context, e *entry) *messages.WaitingJob {
	v := q.verdicts[e.info.Id]
	if v != nil && v.Action == reject {
		q.rejectPending(ctx, e, v)
		return nil
	}
	return &messages.WaitingJob{Id: e.info.Id, Encoded: e.info.Encoded, Verdict: v}
}

// letGo: a job has ended, or was never recorded; no rule matters to it any more.
func (q *queue) letGo(ctx actor.Context, id int64) {
	delete(q.verdicts, id)
	ctx.Send(q.config.Filters, &messages.ForgetJob{Id: id})
}

// held notes that a job waits for others, for all to see.
func (q *queue) held(ctx actor.Context, m *messages.JobHeld) {
	e := q.entries[m.Id]
	if e == nil || e.place != pending || e.info.Held == m.Held {
		return
	}
	info := proto.CloneOf(e.info)
	info.Held = m.Held
	e.info = info
	q.tellWatchers(ctx, e, info.Encoded)
}

// doom ends a job that waits for another one in vain.
func (q *queue) doom(ctx actor.Context, m *messages.DoomJob) {
	e := q.entries[m.Id]
	if e == nil || e.place != pending {
		return // it comes back to the scheduler, or has ended otherwise
	}
	q.rewrite(ctx, e, "doom-job", func(j *job.Job) {
		q.explain(j, doomSource, m.Text)
		if m.Canceled {
			j.CancelUnstarted(job.Quote("Job canceled: "+m.Text), q.now())
		} else {
			j.FailUnfinished(job.ErrorResult("OpExecError", "Dependency error: "+m.Text), q.now())
		}
	}, q.notWritten(m.Id))
}

// outcomePause is the pause before an archived job is read again that could not be.
const outcomePause = time.Second

// outcome tells the scheduler what has become of a job that it does not know.
func (q *queue) outcome(ctx actor.Context, id int64) {
	e := q.entries[id]
	switch {
	case e != nil && (e.place == final || e.place == changing && e.status().Final()): // the latter is being archived
		ctx.Send(q.config.Scheduler, &messages.JobOutcome{Id: id, Status: e.info.Status})
	case e != nil: // its end will be told
	case id <= 0 || id > q.serial:
		ctx.Send(q.config.Scheduler, &messages.JobOutcome{Id: id, Missing: true})
	default:
		q.archivedOutcome(ctx, id)
	}
}

// outcomeUnread has an archived job looked at again that could not be read.
func (q *queue) outcomeUnread(ctx actor.Context, id int64, f *messages.Failure) {
	q.config.Env.Log().WithField("job", id).Error(fmt.Sprintf("an archived job, for which others wait, cannot be read: %s", f.Text))
	kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), outcomePause, ctx.Self(), &messages.AskOutcome{Id: id})
}

// archivedOutcome is that of a job that was archived, or never recorded. What the
// records say holds on every node. A node that is alone has the whole archive but for
// what was removed; in a cluster another one may have what this one lacks.
func (q *queue) archivedOutcome(ctx actor.Context, id int64) {
	if status, known := q.recordedEnd(id); known {
		ctx.Send(q.config.Scheduler, &messages.JobOutcome{Id: id, Status: int32(status)})
		return
	}
	q.readArchived(ctx, "outcome", id, func(ctx actor.Context, status job.Status, known bool, f *messages.Failure) {
		switch {
		case f != nil:
			q.outcomeUnread(ctx, id, f)
		case known:
			ctx.Send(q.config.Scheduler, &messages.JobOutcome{Id: id, Status: int32(status)})
			q.recordEnds(ctx, []end{{id, status}}, func(_ actor.Context, failed map[int64]*messages.Failure) { q.notRecorded(failed) })
		case q.config.Shared:
			q.config.Env.Log().WithField("job", id).Warn("a job for which others wait is not known on this node, nor how it has ended; they wait until another node knows, or until they are canceled")
			ctx.Send(q.config.Scheduler, &messages.JobOutcome{Id: id, Unknown: true})
		default:
			ctx.Send(q.config.Scheduler, &messages.JobOutcome{Id: id, Missing: true})
		}
	})
}
