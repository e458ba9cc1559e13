package queue

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// ordered takes a client order.
func (q *queue) ordered(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	if m.Kind == messages.OrderJob_SET_PRIORITY {
		q.changePriority(ctx, sender, m)
		return
	}
	q.cancel(ctx, sender, m)
}

// cancel answers itself for a job that is not active; what a process may
// act on is asked of the jobs actor.
func (q *queue) cancel(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	e := q.entries[m.Id]
	switch {
	case e == nil || e.stage == final:
		answerClient(ctx, sender, m.Request, false, notFoundText(m.Id))
	case e.stage == active:
		ctx.RequestWithCustomSender(q.config.Jobs, m, sender)
	case e.stage == changing:
		answerClient(ctx, sender, m.Request, false, busyText(m.Id))
	default:
		q.rewrite(ctx, e, "cancel-job", func(j *job.Job) { j.CancelUnstarted(nil, q.now()) },
			func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					answerClient(ctx, sender, m.Request, false, f.Text)
					return
				}
				answerClient(ctx, sender, m.Request, true, fmt.Sprintf("Dequeued job %d", m.Id))
			})
	}
}

// changePriority touches opcodes that have not started, of any job that has not
// ended.
func (q *queue) changePriority(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	e := q.entries[m.Id]
	switch {
	case e == nil || e.stage == final:
		answerClient(ctx, sender, m.Request, false, notFoundText(m.Id))
	case e.stage == active:
		ctx.RequestWithCustomSender(q.config.Jobs, m, sender)
	case e.stage == changing:
		answerClient(ctx, sender, m.Request, false, busyText(m.Id))
	default:
		q.rewrite(ctx, e, "priority-job", func(j *job.Job) { j.Reprioritise(int(m.Priority)) },
			func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					answerClient(ctx, sender, m.Request, false, f.Text)
					return
				}
				answerClient(ctx, sender, m.Request, true,
					fmt.Sprintf("Priorities of pending opcodes for job %d have been changed to %d", m.Id, m.Priority))
			})
	}
}

// answerClient is for a client; the jobs actor, which passes a promise on, wants none.
func answerClient(ctx actor.Context, to *actor.PID, request uint64, done bool, text string) {
	if to == nil {
		return
	}
	ctx.Send(to, &messages.OrderJobResult{Request: request, Done: done, Text: text})
}

func notFoundText(id int64) string { return fmt.Sprintf("Job %d not found in queue", id) }

func busyText(id int64) string {
	return fmt.Sprintf("Job %d is just being changed for somebody else; try again", id)
}

// rewrite changes a pending job's file, durably. Meanwhile the job is out of the
// scheduler's sight, so that it is not picked with the content of before.
func (q *queue) rewrite(ctx actor.Context, e *entry, op string, change func(*job.Job), done func(actor.Context, *messages.Failure)) {
	id := e.info.Id
	j, err := job.Decode(e.info.Encoded)
	if err != nil {
		panic(fmt.Errorf("job %d in memory is not a job: %w", id, err)) // it was decoded when it came in
	}
	change(j)
	encoded := job.Encode(j)
	e.stage = changing
	q.updateTally(id, e)
	ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: id})
	file := &messages.FileWrite{Op: op, Path: paths.JobPath(id), Content: encoded}
	q.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) > 0 {
				q.restore(ctx, e, 0)
				done(ctx, written.Failures[0].Failure)
				return
			}
			e.info = q.newInfo(j, encoded)
			if j.Status().Final() {
				q.finish(ctx, e, encoded)
			} else {
				q.enqueue(ctx, e)
				q.notifySubscribers(ctx, e, encoded)
			}
			done(ctx, nil)
		})
}

// retryRestore is due some time after a file could not be restored.
type retryRestore struct {
	incarnation uint32
	id          int64
	tries       int
}

// restore puts a job's file back as it was, for nobody knows what a write that
// has failed has left of it. The job does not start before that has succeeded.
func (q *queue) restore(ctx actor.Context, e *entry, tries int) {
	id := e.info.Id
	file := &messages.FileWrite{Op: "restore-job", Path: paths.JobPath(id), Content: e.info.Encoded}
	q.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) == 0 {
				q.enqueue(ctx, e)
				return
			}
			delay := kit.Backoff(tries)
			q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": written.Failures[0].Failure.Text, "delay": delay}).
				Error("the file of a queued job cannot be restored")
			kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryRestore{q.incarnation, id, tries + 1})
		})
}

func (q *queue) retryRestore(ctx actor.Context, m *retryRestore) {
	if e := q.entries[m.id]; e != nil && m.incarnation == q.incarnation {
		q.restore(ctx, e, m.tries)
	}
}

// enqueue gives a job to the scheduler.
func (q *queue) enqueue(ctx actor.Context, e *entry) {
	e.stage = pending
	q.updateTally(e.info.Id, e)
	if w := q.unfinishedJob(ctx, e); w != nil {
		ctx.Send(q.config.Scheduler, &messages.EnqueueJobs{Jobs: []*messages.UnfinishedJob{w}})
	}
}

// finish notes that a job has ended and tells everybody concerned.
func (q *queue) finish(ctx actor.Context, e *entry, encoded []byte) {
	if e.stage == active {
		ctx.Send(q.config.Locks, &messages.JobCleanedUp{Id: e.info.Id})
	}
	e.stage = final
	q.dropDependencies(e)
	q.unfinished--
	delete(q.secrets, e.info.Id)
	q.updateTally(e.info.Id, e)
	q.notifySubscribers(ctx, e, encoded)
	for _, watcher := range e.subscribers {
		delete(q.subscriptions, watcher.Id)
	}
	e.subscribers = nil
	q.forgetVerdict(ctx, e.info.Id)
	ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: e.info.Id, Ended: true, Status: e.info.Status})
}
