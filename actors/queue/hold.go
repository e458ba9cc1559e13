package queue

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/access"
	"lockstep/core/record"
	"lockstep/messages"
)

// holds are the jobs that begin no opcode because an operator holds them. The record of
// the job says so on the disk; it is ahead of inForce while a release is being written.
type holds struct {
	inForce  map[int64]record.Hold
	changing map[int64]bool // jobs whose record is being written; orders about them are refused
}

func newHolds() holds { return holds{inForce: map[int64]record.Hold{}, changing: map[int64]bool{}} }

// orderHold holds a job, or releases it. A hold is in force before it is written, a
// release after; both are answered when they are durable. A repeated order is written
// again, because an earlier daemon may have ended before its write was durable.
func (q *queue) orderHold(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	e := q.index.get(m.Id)
	former, held := q.holds.inForce[m.Id]
	hold := m.Kind == messages.OrderJob_HOLD
	switch {
	case e == nil || e.stage == final || e.isBeingArchived():
		answerClient(ctx, sender, m.Request, false, notFoundText(m.Id))
		return
	case q.holds.changing[m.Id]:
		answerClient(ctx, sender, m.Request, false, busyText(m.Id))
		return
	case !hold && held && m.OnlyOf != "" && !former.Own:
		text := access.RefusedRelease(m.Id, record.User(former.By), record.User(m.By)).Error()
		ctx.Send(sender, &messages.OrderJobResult{Request: m.Request, Refused: messages.PrereqFailure(messages.NotPermitted, text)})
		return
	case !hold && !held && !q.records.hasFile(m.Id):
		answerClient(ctx, sender, m.Request, true, fmt.Sprintf("Job %d is not held", m.Id))
		return
	}
	before := q.records.get(m.Id)
	after := before.WithoutHold()
	if hold {
		if !held || former.Own && m.OnlyOf == "" {
			former = record.Hold{By: m.By, Own: m.OnlyOf != "", SinceUs: q.config.Env.Clock().Now().UnixMicro()}
			// In force before it is written: a job that began during the write would make the answer wrong.
			q.setHold(ctx, m.Id, former)
		}
		after = before.WithHold(former)
	}
	q.holds.changing[m.Id] = true
	q.records.set(m.Id, after)
	q.writeRecord(ctx, "hold-record", m.Id, after, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			if hold && !held {
				q.dropHold(ctx, m.Id)
			}
			q.takeBackHold(ctx, m.Id, held, former)
			answerClient(ctx, sender, m.Request, false, f.Text)
			return
		}
		delete(q.holds.changing, m.Id)
		if hold {
			q.callOff(ctx, []int64{m.Id}, func(ctx actor.Context, mayBegin []int64) {
				done, text := q.holdText(m.Id, len(mayBegin) > 0)
				answerClient(ctx, sender, m.Request, done, text)
			})
			return
		}
		// A release counts when it is durable: after a crash before that, the job is held as its record says.
		q.dropHold(ctx, m.Id)
		answerClient(ctx, sender, m.Request, true, fmt.Sprintf("Job %d is released", m.Id))
	})
}

func (q *queue) writeRecord(ctx actor.Context, op string, id int64, r record.Record, done func(actor.Context, *messages.Failure)) {
	q.write(ctx, []*messages.FileWrite{recordFile(op, id, r)}, func(ctx actor.Context, written *messages.ChangeFilesResult) {
		if len(written.Failures) > 0 {
			done(ctx, written.Failures[0].Failure)
			return
		}
		done(ctx, nil)
	})
}

// setHold puts a hold into force, and tells the scheduler and the subscribers.
func (q *queue) setHold(ctx actor.Context, id int64, h record.Hold) {
	q.holds.inForce[id] = h
	q.holdChanged(ctx, &messages.HoldChanged{Id: id, Held: true, By: h.By})
}

// dropHold ends the hold of a job, and tells the scheduler and the subscribers. Without a hold it does nothing.
func (q *queue) dropHold(ctx actor.Context, id int64) {
	if _, held := q.holds.inForce[id]; held {
		delete(q.holds.inForce, id)
		q.holdChanged(ctx, &messages.HoldChanged{Id: id})
	}
}

// holdChanged tells the scheduler, then the subscribers of all jobs: what they ask next about the job has the change.
func (q *queue) holdChanged(ctx actor.Context, m *messages.HoldChanged) {
	ctx.Send(q.config.Scheduler, m)
	if e := q.index.get(m.Id); e != nil {
		q.publishChanges(ctx, &messages.JobStatesChanged{Jobs: []*messages.JobInfo{e.info}})
	}
}

// retryRecord is the timer message after a record could not be written.
type retryRecord struct {
	incarnation uint32 // of the queue; the message of an earlier one is ignored
	id          int64
	tries       int
}

// takeBackHold makes the record say again what it said before an order that could not be
// written: the file may have any content. It repeats the write until it succeeds; orders
// to hold or release the job are refused until then.
func (q *queue) takeBackHold(ctx actor.Context, id int64, held bool, h record.Hold) {
	r := q.records.get(id).WithoutHold()
	if held {
		r = r.WithHold(h)
	}
	q.records.set(id, r)
	q.restoreRecord(ctx, id, 0)
}

func (q *queue) restoreRecord(ctx actor.Context, id int64, tries int) {
	if q.index.get(id) == nil {
		delete(q.holds.changing, id)
		return
	}
	q.writeRecord(ctx, "restore-record", id, q.records.get(id), func(ctx actor.Context, f *messages.Failure) {
		if f == nil {
			delete(q.holds.changing, id)
			return
		}
		delay := kit.Backoff(tries)
		q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": f.Text, "delay": delay}).
			Error("the record of a job cannot be restored; a hold may change at the next start of the daemon")
		kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryRecord{q.incarnation, id, tries + 1})
	})
}

func (q *queue) retryRecord(ctx actor.Context, m *retryRecord) {
	if m.incarnation == q.incarnation {
		q.restoreRecord(ctx, m.id, m.tries)
	}
}

// holdText is the answer to a hold that is durable, after the start of the job was called off. It names
// the opcode that the job executes, or the one that it may still begin.
func (q *queue) holdText(id int64, mayBegin bool) (done bool, text string) {
	e := q.index.get(id)
	if e == nil || e.status().Final() {
		return false, notFoundText(id)
	}
	if _, held := q.holds.inForce[id]; !held {
		return false, fmt.Sprintf("Job %d has been released since", id)
	}
	text = fmt.Sprintf("Job %d is held", id)
	if e.stage != active {
		return true, text
	}
	executing, next := decodeKnown(id, e.info.Encoded).Progress()
	switch {
	case executing >= 0:
		text += fmt.Sprintf("; opcode %d has begun", executing+1)
	case mayBegin:
		text += fmt.Sprintf("; opcode %d may still begin", next+1)
	}
	return true, text
}

// asUnfinished is a job as the scheduler gets it: with its verdict and hold. One that has a process keeps its time:
// its age counts from that.
func (q *queue) asUnfinished(e *entry) *messages.UnfinishedJob {
	id := e.info.Id
	h, held := q.holds.inForce[id]
	return &messages.UnfinishedJob{Id: id, Encoded: e.info.Encoded, Verdict: q.verdicts.of[id], Held: held, HeldBy: h.By,
		Name: e.info.Name, Wait: e.info.Wait, Submitter: e.info.Submitter, DueUs: q.records.get(id).DueUs(), Try: e.info.Try}
}
