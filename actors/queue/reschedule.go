package queue

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// reschedule sets when a job without a process may start, or make its next try, and answers when that is durable. A time that has passed
// is now. Until the write is over, the scheduler does not know the job: it starts neither at its former time nor at the new one.
func (q *queue) reschedule(ctx actor.Context, sender *actor.PID, m *messages.OrderJob) {
	e := q.index.get(m.Id)
	switch {
	case e == nil || e.stage == final:
		answerClient(ctx, sender, m.Request, false, notFoundText(m.Id))
		return
	case e.stage == active:
		answerClient(ctx, sender, m.Request, false, fmt.Sprintf("Job %d has started, so its time cannot change", m.Id))
		return
	case e.stage == changing || q.holds.changing[m.Id]:
		answerClient(ctx, sender, m.Request, false, busyText(m.Id))
		return
	}
	now := q.config.Env.Clock().Now().UnixMicro()
	former := q.records.get(m.Id).DueUs()
	due := max(m.AtUs, now)
	after := q.records.get(m.Id).WithDue(due)
	q.index.setStage(e, changing)
	ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: m.Id})
	q.holds.changing[m.Id] = true
	q.records.set(m.Id, after)
	q.writeRecord(ctx, "time-record", m.Id, after, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			q.records.set(m.Id, q.records.get(m.Id).WithDue(former))
			q.enqueue(ctx, e)
			q.restoreRecord(ctx, m.Id, 0)
			answerClient(ctx, sender, m.Request, false, f.Text)
			return
		}
		delete(q.holds.changing, m.Id)
		q.index.setInfo(e, q.nextInfo(e, decodeKnown(m.Id, e.info.Encoded), e.info.Encoded))
		q.enqueue(ctx, e)
		q.publishChanges(ctx, &messages.JobStatesChanged{Jobs: []*messages.JobInfo{e.info}})
		kit.Publish(ctx, q.subscribers.byJob[m.Id], &messages.JobChanged{Info: e.info, Encoded: e.info.Encoded})
		answerClient(ctx, sender, m.Request, true, rescheduledText(m.Id, due, now))
	})
}

func rescheduledText(id, due, now int64) string {
	if due == now {
		return fmt.Sprintf("Job %d may start now", id)
	}
	return fmt.Sprintf("Job %d starts at %s", id, time.UnixMicro(due).UTC().Format(time.RFC3339))
}
