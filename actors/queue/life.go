package queue

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
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
	if v := q.verdicts[id]; v != nil && v.Action == pause {
		// The rule has come after the choice, but its maker may have been told
		// already that it is in force.
		ctx.Send(q.config.Scheduler, &messages.JobLeft{Id: id})
		q.enqueue(ctx, e)
		return
	}
	e.place = out
	q.count(id, e)
	ctx.Send(q.config.Jobs, &messages.StartJob{Id: id, Encoded: e.info.Encoded, Hand: q.hand(id, e.info.Encoded)})
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
	former := e.info.Priority
	e.info = q.newInfo(j, encoded)
	q.count(id, e)
	e.info.Encoded = encoded // final or not: whoever adopts the job needs it
	if e.info.Priority != former {
		ctx.Send(q.config.Scheduler, &messages.PriorityChanged{Id: id, Priority: e.info.Priority})
	}
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
	e.info = q.newInfo(j, m.Encoded)
	q.finish(ctx, e, m.Encoded)
}

// askJobOver answers at once for a job that no process can be at work for; for
// any other the lock manager hears of its end anyway.
func (q *queue) askJobOver(ctx actor.Context, sender *actor.PID, m *messages.AskJobOver) {
	if e := q.entries[m.Id]; e == nil || e.place != out {
		ctx.Send(sender, &messages.JobOver{Id: m.Id})
	}
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

// populate tells a new scheduler of everybody, once the verdicts are known.
func (q *queue) populate(ctx actor.Context, epoch uint64) {
	if !q.judged {
		q.populace = epoch
		return
	}
	p := &messages.Population{Epoch: epoch}
	for _, id := range q.order {
		e := q.entries[id]
		if e == nil {
			continue
		}
		w := &messages.WaitingJob{Id: id, Encoded: e.info.Encoded, Verdict: q.verdicts[id]}
		switch e.place {
		case pending:
			q.held(ctx, &messages.JobHeld{Id: id}) // the scheduler says so again
			p.Pending = append(p.Pending, w)
		case out:
			p.Running = append(p.Running, w)
		}
	}
	ctx.Send(q.config.Scheduler, p)
}

// adoptAll hands a new jobs actor what the former one had.
func (q *queue) adoptAll(ctx actor.Context) {
	for _, info := range q.tally.running() {
		ctx.Send(q.config.Jobs, &messages.AdoptJob{Id: info.Id, Encoded: info.Encoded})
	}
}
