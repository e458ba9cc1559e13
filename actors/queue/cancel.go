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

// cancel answers itself for a job that nobody has in hand; what a process may
// act on is asked of the jobs actor.
func (q *queue) cancel(ctx actor.Context, sender *actor.PID, m *messages.CancelJob) {
	e := q.entries[m.Id]
	event := job.Cancel
	if m.Kill {
		event = job.Kill
	}
	switch {
	case e == nil || e.status().On(event).Effect == job.Refuses && e.place == final:
		answer(ctx, sender, m.Request, false, notFound(m.Id))
	case e.place == out:
		ctx.RequestWithCustomSender(q.config.Jobs, m, sender)
	case e.place == changing:
		answer(ctx, sender, m.Request, false, beingChanged(m.Id))
	default:
		q.rewrite(ctx, e, "cancel-job", func(j *job.Job) { j.CancelUnstarted(nil, q.now()) },
			func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					answer(ctx, sender, m.Request, false, f.Text)
					return
				}
				answer(ctx, sender, m.Request, true, fmt.Sprintf("Dequeued job %d", m.Id))
			})
	}
}

// changePriority touches opcodes that have not started, of any job that has not
// ended.
func (q *queue) changePriority(ctx actor.Context, sender *actor.PID, m *messages.ChangePriority) {
	e := q.entries[m.Id]
	switch {
	case e == nil || e.place == final:
		answer(ctx, sender, m.Request, false, notFound(m.Id))
	case e.place == out:
		ctx.RequestWithCustomSender(q.config.Jobs, m, sender)
	case e.place == changing:
		answer(ctx, sender, m.Request, false, beingChanged(m.Id))
	default:
		q.rewrite(ctx, e, "priority-job", func(j *job.Job) { j.Reprioritise(int(m.Priority)) },
			func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					answer(ctx, sender, m.Request, false, f.Text)
					return
				}
				answer(ctx, sender, m.Request, true,
					fmt.Sprintf("Priorities of pending opcodes for job %d have been changed to %d", m.Id, m.Priority))
			})
	}
}

// answer is for a client; the jobs actor, which passes a promise on, wants none.
func answer(ctx actor.Context, to *actor.PID, request uint64, done bool, text string) {
	if to == nil {
		return
	}
	ctx.Send(to, &messages.JobAnswered{Request: request, Done: done, Text: text})
}

func notFound(id int64) string { return fmt.Sprintf("Job %d not found in queue", id) }

func beingChanged(id int64) string {
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
	e.place = changing
	q.count(id, e)
	ctx.Send(q.config.Scheduler, &messages.JobLeft{Id: id})
	file := &messages.FileWrite{Op: op, Path: paths.JobPath(id), Content: encoded}
	q.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, written *messages.FilesDone) {
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
				q.tellWatchers(ctx, e, encoded)
			}
			done(ctx, nil)
		})
}

// restoreAgain is due some time after a file could not be restored.
type restoreAgain struct {
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
		func(ctx actor.Context, written *messages.FilesDone) {
			if len(written.Failures) == 0 {
				q.enqueue(ctx, e)
				return
			}
			delay := kit.Backoff(tries)
			q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": written.Failures[0].Failure.Text, "again": delay}).
				Error("the file of a queued job cannot be restored")
			kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &restoreAgain{q.incarnation, id, tries + 1})
		})
}

func (q *queue) restoreAgain(ctx actor.Context, m *restoreAgain) {
	if e := q.entries[m.id]; e != nil && m.incarnation == q.incarnation {
		q.restore(ctx, e, m.tries)
	}
}

// enqueue gives a job to the scheduler.
func (q *queue) enqueue(ctx actor.Context, e *entry) {
	e.place = pending
	q.count(e.info.Id, e)
	if w := q.waiting(ctx, e); w != nil {
		ctx.Send(q.config.Scheduler, &messages.EnqueueJobs{Jobs: []*messages.WaitingJob{w}})
	}
}

// finish notes that a job has ended and tells everybody concerned.
func (q *queue) finish(ctx actor.Context, e *entry, encoded []byte) {
	if e.place == out {
		ctx.Send(q.config.Locks, &messages.JobOver{Id: e.info.Id})
	}
	e.place = final
	q.unblock(e)
	q.unfinished--
	delete(q.vault, e.info.Id)
	q.count(e.info.Id, e)
	q.tellWatchers(ctx, e, encoded)
	for _, watcher := range e.watchers {
		delete(q.watching, watcher.Id)
	}
	e.watchers = nil
	q.letGo(ctx, e.info.Id)
	ctx.Send(q.config.Scheduler, &messages.JobLeft{Id: e.info.Id, Ended: true, Status: e.info.Status})
}
