package queue

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/proto"

	"lockstep/actors/kit"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/rawjson"
	"lockstep/messages"
)

// dependencySource is the source of the reason trail entry of a job that ends because a
// dependency cannot be met (queue.md 3.6).
const dependencySource = "gnt:daemon:luxid:dependency"

// outcomeRetryPause is the time until an archived job that cannot be read is read again.
const outcomeRetryPause = time.Second

// startWaitChanged shows in a pending job what it waits for. A job that is being changed is given to the scheduler
// with what was shown before, and the scheduler reports the change again.
func (q *queue) startWaitChanged(ctx actor.Context, m *messages.StartWaitChanged) {
	if e := q.index.get(m.Id); e != nil && e.stage == pending {
		q.showStartWait(ctx, e, m.Wait)
	}
}

// showStartWait shows in a job without a process what it waits for. It writes nothing.
func (q *queue) showStartWait(ctx actor.Context, e *entry, wait messages.StartWait) {
	if e.info.Wait == wait {
		return
	}
	info := proto.CloneOf(e.info)
	info.Wait = wait
	q.index.setInfo(e, info)
	q.notifySubscribers(ctx, info, info.Encoded)
}

// endUnrunnable ends a pending job with a dependency that cannot be met. It ignores a
// job in another stage: the job has ended, or returns to the scheduler, which reports
// it again.
func (q *queue) endUnrunnable(ctx actor.Context, m *messages.EndUnrunnableJob) {
	e := q.index.get(m.Id)
	if e == nil || e.stage != pending {
		return
	}
	recorded := q.records.get(m.Id)
	if m.Cause != 0 {
		recorded = recorded.WithCause(m.Cause, job.Status(m.Status))
	}
	q.rewrite(ctx, e, "doom-job", recorded, func(j *job.Job) {
		q.appendReason(j, dependencySource, m.Text)
		if m.Canceled {
			j.CancelUnstarted(rawjson.Quote(jobproc.CanceledByDependency+m.Text), q.now())
		} else {
			j.FailUnfinished(job.ErrorResult("OpExecError", jobproc.DependencyFailed+m.Text), q.now())
		}
	}, q.logEndNotWritten(m.Id))
}

// logEndNotWritten logs that the end of a pending job could not be written. The job
// returns to the scheduler and to the filter engine, which find the reason again.
func (q *queue) logEndNotWritten(id int64) func(actor.Context, *messages.Failure) {
	return func(_ actor.Context, f *messages.Failure) {
		if f != nil {
			q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": f.Text}).
				Error("the end of a pending job cannot be written; the job stays pending")
		}
	}
}

// jobOutcome tells the scheduler how a job has ended that the scheduler does not know.
// For a job that is not final there is no answer: its end will be reported.
func (q *queue) jobOutcome(ctx actor.Context, id int64) {
	e := q.index.get(id)
	switch {
	case e != nil && (e.stage == final || e.isBeingArchived()):
		ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Status: e.info.Status})
	case e != nil:
	case id <= 0 || id > q.submissions.serial:
		ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Missing: true})
	default:
		q.archivedOutcome(ctx, id)
	}
}

// archivedOutcome answers for a job that is archived or was never recorded. A job
// record is the same on every node. If no record names the job, this node's archive is
// read. A single node has every archived job that was not removed; in a cluster
// another node may have a job that this node lacks.
func (q *queue) archivedOutcome(ctx actor.Context, id int64) {
	if status, known := q.records.endOf(id); known {
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
			q.config.Env.Log().WithField("job", id).
				Warn("the archive of this node lacks a job that others depend on; " +
					"they wait until a node with that job is the master, or until they are canceled")
			ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Unknown: true})
		default:
			ctx.Send(q.config.Scheduler, &messages.GetJobOutcomeResult{Id: id, Missing: true})
		}
	})
}

// retryOutcome repeats the question about an archived job whose file could not be read.
func (q *queue) retryOutcome(ctx actor.Context, id int64, f *messages.Failure) {
	q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": f.Text}).
		Error("an archived job that others depend on cannot be read; it is read again")
	kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), outcomeRetryPause, ctx.Self(), &messages.GetJobOutcome{Id: id})
}
