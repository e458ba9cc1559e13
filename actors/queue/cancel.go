package queue

import (
	"bytes"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// ordered handles a client order: a priority, a hold or release, another time, or a cancel or kill.
func (q *queue) ordered(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	if f := q.orderRefusal(m); f != nil {
		ctx.Send(sender, &messages.OrderJobResult{Request: m.Request, Refused: f})
		return
	}
	switch m.Kind {
	case messages.OrderJob_SET_PRIORITY:
		q.changePriority(ctx, sender, m)
	case messages.OrderJob_HOLD, messages.OrderJob_RELEASE:
		q.orderHold(ctx, sender, m)
	case messages.OrderJob_RESCHEDULE:
		q.reschedule(ctx, sender, m)
	default:
		q.cancel(ctx, sender, m)
	}
}

// orderRefusal returns why the sender of an order may not give it: the job belongs to another user. It returns nil if he may, or if there
// is no such job.
func (q *queue) orderRefusal(m *messages.OrderJob) *messages.Failure {
	return q.refusal(m.Id, m.OnlyOf, orderText(m.Kind), m.By)
}

// refusal returns why the user with the key onlyOf may not do something to a job; nil: he may, or there is no such job.
func (q *queue) refusal(id int64, onlyOf, what, by string) *messages.Failure {
	e := q.index.get(id)
	if e == nil || q.belongsTo(e, onlyOf) {
		return nil
	}
	owner, _ := access.DecodeSubmitter(e.info.Submitter, q.config.Daemon)
	return messages.PrereqFailure(messages.NotPermitted, access.RefusedOrder(id, owner, what, record.User(by)).Error())
}

// belongsTo reports whether a job belongs to the user with this key; "" stands for a user who may change all jobs.
func (q *queue) belongsTo(e *entry, key string) bool {
	if key == "" {
		return true
	}
	owner, err := access.DecodeSubmitter(e.info.Submitter, q.config.Daemon)
	return err == nil && owner.Key() == key
}

// orderText is an order in the words of a refusal.
func orderText(kind messages.OrderJob_Kind) string {
	switch kind {
	case messages.OrderJob_CANCEL:
		return "cancel it"
	case messages.OrderJob_KILL:
		return "kill it"
	case messages.OrderJob_HOLD:
		return "hold it"
	case messages.OrderJob_RELEASE:
		return "release it"
	case messages.OrderJob_ARCHIVE:
		return "archive it"
	case messages.OrderJob_RESCHEDULE:
		return "change its time"
	default:
		return "change its priority"
	}
}

// cancel cancels a pending job. An order about an active job goes to the jobs actor,
// for the job process may have to be told. The author is recorded before the order has
// an effect.
func (q *queue) cancel(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	e := q.index.get(m.Id)
	switch {
	case e == nil || e.stage == final:
		answerClient(ctx, sender, m.Request, false, notFoundText(m.Id))
	case m.Rejection != nil && e.stage != active: // verdictsChanged has canceled it, or the rule is gone
	case e.stage == active && m.By != "":
		q.recordCanceledBy(ctx, sender, m)
	case e.stage == active:
		ctx.RequestWithCustomSender(q.config.Jobs, m, sender)
	case e.stage == changing:
		answerClient(ctx, sender, m.Request, false, busyText(m.Id))
	default:
		recorded := q.records.get(m.Id)
		if m.By != "" {
			recorded = recorded.WithCanceledBy(m.By)
		}
		q.rewrite(ctx, e, "cancel-job", recorded, func(j *job.Job) { j.CancelUnstarted(nil, q.now()) },
			func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					answerClient(ctx, sender, m.Request, false, f.Text)
					return
				}
				answerClient(ctx, sender, m.Request, true, fmt.Sprintf("Dequeued job %d", m.Id))
			})
	}
}

// recordCanceledBy records the author of an order about an active job, then goes on with
// the order. Only the job process knows whether it obeys: an order that it refuses stays
// in the record, without a consequence. If the record cannot be written the order takes effect nevertheless: it may
// be what frees a full disk.
func (q *queue) recordCanceledBy(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	recorded := q.records.get(m.Id).WithCanceledBy(m.By)
	q.records.set(m.Id, recorded)
	file := recordFile("cancel-record", m.Id, recorded)
	q.write(ctx, []*messages.FileWrite{file},
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) > 0 {
				q.config.Env.Log().WithFields(logrus.Fields{"job": m.Id, "err": written.Failures[0].Failure.Text}).
					Error("the author of a cancel cannot be recorded; the job is canceled nevertheless")
			}
			q.cancel(ctx, sender, &messages.OrderJob{Request: m.Request, Id: m.Id, Kind: m.Kind})
		})
}

// changePriority sets the priority of the opcodes that have not started, of a job that is not final, and answers. The order for an active
// job is passed on to the jobs actor.
func (q *queue) changePriority(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	e := q.index.get(m.Id)
	switch {
	case e == nil || e.stage == final:
		answerClient(ctx, sender, m.Request, false, notFoundText(m.Id))
	case e.stage == active:
		ctx.RequestWithCustomSender(q.config.Jobs, m, sender)
	case e.stage == changing:
		answerClient(ctx, sender, m.Request, false, busyText(m.Id))
	default:
		q.rewrite(ctx, e, "priority-job", q.records.get(m.Id), func(j *job.Job) { j.Reprioritise(int(m.Priority)) },
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

// answerClient answers a client order. to is nil for an order that the jobs actor
// passes on: the client has its answer already.
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

// rewrite changes the file of a pending job durably, and its record if recorded differs
// from it. The job is changing until the write is over, and the scheduler does not know
// it: it must not start with the former content. If the write fails, done receives the
// failure and the file is restored; the record stays.
func (q *queue) rewrite(
	ctx actor.Context, e *entry, op string, recorded record.Record,
	change func(*job.Job), done func(actor.Context, *messages.Failure),
) {
	id := e.info.Id
	j, err := job.Decode(e.info.Encoded)
	if err != nil {
		panic(fmt.Errorf("job %d in memory is not a job: %w", id, err)) // it was decoded when it was added
	}
	change(j)
	encoded := job.Encode(j)
	q.index.setStage(e, changing)
	ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: id})
	files := []*messages.FileWrite{{Op: op, Path: paths.JobPath(id), Content: encoded}}
	if !bytes.Equal(recorded.Encode(), q.records.get(id).Encode()) {
		q.records.set(id, recorded)
		files = append(files, recordFile(op+"-record", id, recorded))
	}
	q.write(ctx, files,
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) > 0 {
				q.restore(ctx, e, 0)
				done(ctx, written.Failures[0].Failure)
				return
			}
			q.index.setInfo(e, q.nextInfo(e, j, encoded))
			if j.Status().Final() {
				q.finish(ctx, e, encoded)
			} else {
				q.enqueue(ctx, e)
				q.notifySubscribers(ctx, e.info, encoded)
			}
			done(ctx, nil)
		})
}

// retryRestore is the timer message after a restore that has failed.
type retryRestore struct {
	incarnation uint32 // of the queue; the message of an earlier one is ignored
	id          int64
	tries       int // restores that have failed
}

// restore writes the former content of a job's file again: a failed write may have left
// any content. The job becomes pending when that has succeeded; restore is repeated
// until then.
func (q *queue) restore(ctx actor.Context, e *entry, tries int) {
	id := e.info.Id
	file := &messages.FileWrite{Op: "restore-job", Path: paths.JobPath(id), Content: e.info.Encoded}
	q.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) == 0 {
				q.enqueue(ctx, e)
				return
			}
			q.showStartWait(ctx, e, messages.StartWait_NOT_WAITING) // the scheduler does not have it meanwhile, whatever it waited for before
			delay := kit.Backoff(tries)
			q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": written.Failures[0].Failure.Text, "delay": delay}).
				Error("the file of a pending job cannot be restored; the job does not start before it is")
			kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryRestore{q.incarnation, id, tries + 1})
		})
}

func (q *queue) retryRestore(ctx actor.Context, m *retryRestore) {
	if e := q.index.get(m.id); e != nil && m.incarnation == q.incarnation {
		q.restore(ctx, e, m.tries)
	}
}
