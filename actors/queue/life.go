package queue

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/core/job"
	"lockstep/messages"
)

// pick hands a job that the scheduler has chosen to the jobs actor. One that
// does not wait any more gives its slot back.
func (q *queue) pick(ctx actor.Context, id int64) {
	if q.draining != nil {
		return // nothing is started any more
	}
	e := q.entries[id]
	if e != nil && e.place == out {
		return // picked twice, by way of a rewrite: the slot is in use
	}
	if e == nil || e.place != pending {
		ctx.Send(q.config.Scheduler, &messages.JobLeft{Id: id})
		return
	}
	e.place = out
	ctx.Send(q.config.Jobs, &messages.StartJob{Id: id, Encoded: e.info.Encoded, Secrets: q.vault.hand(id, len(e.info.Summary))})
}

// progress takes a job file's new content.
func (q *queue) progress(ctx actor.Context, id int64, encoded []byte) {
	e := q.entries[id]
	if e == nil || e.place != out {
		return // a late report of a job that has ended
	}
	j, err := job.Decode(encoded)
	if err != nil {
		// Reports are hints; the file is the truth, and it is read at the end.
		q.config.Env.Log().WithFields(map[string]any{"job": id, "err": err}).Warn("a job process reported something that is not a job")
		return
	}
	e.info = newInfo(j, encoded)
	e.info.Encoded = encoded // final or not: whoever adopts the job needs it
	q.tellWatchers(ctx, e, encoded)
}

func (q *queue) ended(ctx actor.Context, m *messages.JobEnded) {
	e := q.entries[m.Id]
	if e == nil || e.place != out {
		return
	}
	j, err := job.Decode(m.Encoded)
	if err != nil || !j.Status().Final() {
		panic("the jobs actor ended a job that is not final") // it wrote or read that file itself
	}
	e.info = newInfo(j, m.Encoded)
	q.finish(ctx, e, m.Encoded)
}

// returned takes back a job whose process never got permission to act.
func (q *queue) returned(ctx actor.Context, id int64) {
	e := q.entries[id]
	if e == nil || e.place != out {
		return
	}
	ctx.Send(q.config.Scheduler, &messages.JobLeft{Id: id})
	q.enqueue(ctx, e)
}

// populate tells a new scheduler of everybody.
func (q *queue) populate(ctx actor.Context, epoch uint64) {
	p := &messages.Population{Epoch: epoch}
	for _, id := range q.order {
		e := q.entries[id]
		if e == nil {
			continue
		}
		switch e.place {
		case pending:
			p.Pending = append(p.Pending, &messages.PendingJob{Id: id, Priority: e.info.Priority})
		case out:
			p.Running = append(p.Running, id)
		}
	}
	ctx.Send(q.config.Scheduler, p)
}

// adoptAll hands a new jobs actor what the former one had.
func (q *queue) adoptAll(ctx actor.Context) {
	for _, id := range q.order {
		if e := q.entries[id]; e != nil && e.place == out {
			ctx.Send(q.config.Jobs, &messages.AdoptJob{Id: id, Encoded: e.info.Encoded})
		}
	}
}
