package queue

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/filter"
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
	if e != nil && e.stage == active {
		return // picked twice, by way of a rewrite: the slot is in use
	}
	if e == nil || e.stage != pending {
		ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: id})
		return
	}
	if filter.VerbOf(q.verdicts[id]) == filter.Pause {
		// The rule has come after the choice, but its maker may have been told
		// already that it is in force.
		ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: id})
		q.enqueue(ctx, e)
		return
	}
	e.stage = active
	q.updateTally(id, e)
	ctx.Send(q.config.Jobs, &messages.StartJob{Id: id, Encoded: e.info.Encoded, Launch: q.launchSpecs(id, e.info.Encoded)})
}

// progress takes a job file's new content.
func (q *queue) progress(ctx actor.Context, id int64, encoded []byte) {
	e := q.entries[id]
	if e == nil || e.stage != active {
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
	q.updateTally(id, e)
	e.info.Encoded = encoded // final or not: whoever adopts the job needs it
	if e.info.Priority != former {
		ctx.Send(q.config.Scheduler, &messages.PriorityChanged{Id: id, Priority: e.info.Priority})
	}
	q.notifySubscribers(ctx, e, encoded)
}

func (q *queue) ended(ctx actor.Context, m *messages.JobEnded) {
	e := q.entries[m.Id]
	if e == nil || e.stage != active {
		return
	}
	j, err := job.Decode(m.Encoded)
	if err != nil || !j.Status().Final() {
		panic("the jobs actor ended a job that is not final") // it wrote or read that file itself
	}
	e.info = q.newInfo(j, m.Encoded)
	q.finish(ctx, e, m.Encoded)
}

// awaitCleanup answers at once for a job that no process can be at work for; for
// any other the lock manager hears of its end anyway.
func (q *queue) awaitCleanup(ctx actor.Context, sender *actor.PID, m *messages.AwaitJobCleanup) {
	if e := q.entries[m.Id]; e == nil || e.stage != active {
		ctx.Send(sender, &messages.JobCleanedUp{Id: m.Id})
	}
}

// returned takes back a job whose process never got permission to act.
func (q *queue) returned(ctx actor.Context, id int64) {
	e := q.entries[id]
	if e == nil || e.stage != active {
		return
	}
	ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: id})
	q.enqueue(ctx, e)
}

// sendUnfinishedJobs tells a new scheduler of everybody, once the verdicts are known.
func (q *queue) sendUnfinishedJobs(ctx actor.Context, request uint64) {
	if !q.verdictsKnown {
		q.schedulerRequest = request
		return
	}
	p := &messages.ListUnfinishedJobsResult{Request: request}
	for _, id := range q.order {
		e := q.entries[id]
		if e == nil {
			continue
		}
		w := &messages.UnfinishedJob{Id: id, Encoded: e.info.Encoded, Verdict: q.verdicts[id]}
		switch e.stage {
		case pending:
			q.dependencyWaitChanged(ctx, &messages.DependencyWaitChanged{Id: id}) // the scheduler says so again
			p.Pending = append(p.Pending, w)
		case active:
			p.Active = append(p.Active, w)
		}
	}
	ctx.Send(q.config.Scheduler, p)
}

// adoptAll hands a new jobs actor what the former one had.
func (q *queue) adoptAll(ctx actor.Context) {
	for _, info := range q.tally.activeJobs() {
		ctx.Send(q.config.Jobs, &messages.AdoptJob{Id: info.Id, Encoded: info.Encoded})
	}
}
