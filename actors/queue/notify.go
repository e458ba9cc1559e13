package queue

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/messages"
)

func (q *queue) list(ctx actor.Context, sender *actor.PID, m *messages.ListJobs) {
	answer := &messages.ListJobsResult{Request: m.Request}
	switch {
	case m.All:
		answer.Rows = q.index.rows()
	case m.Limit > 0:
		answer.Rows = q.index.window(m.Cursor, int(m.Limit), m.Newest)
	default:
		answer.Rows = make([]*messages.JobRow, len(m.Ids))
		for i, id := range m.Ids {
			answer.Rows[i] = q.index.row(id)
		}
	}
	ctx.Send(sender, answer)
}

// subscribe subscribes the sender to one job, and ends its subscription to another. It
// answers with the job's current state. A final job has no subscribers.
func (q *queue) subscribe(ctx actor.Context, subscriber *actor.PID, m *messages.SubscribeJob) {
	q.subscribers.unsubscribe(subscriber)
	ctx.Send(subscriber, &messages.SubscribeJobResult{Request: m.Request, Row: q.index.row(m.Id)})
	e := q.index.get(m.Id)
	if e == nil || e.stage == final {
		return
	}
	q.subscribers.subscribe(subscriber, m.Id)
	ctx.Watch(subscriber)
}

func (q *queue) subscribeAll(ctx actor.Context, subscriber *actor.PID, m *messages.SubscribeAllJobs) {
	if q.subscribers.subscribeAll(subscriber, m) {
		ctx.Watch(subscriber)
	}
}

// notifySubscribers sends a changed job to the subscribers of all jobs, then to its own.
func (q *queue) notifySubscribers(ctx actor.Context, info *messages.JobInfo, encoded []byte) {
	q.notifyAllSubscribers(ctx, info)
	changed := &messages.JobChanged{Info: info, Encoded: encoded}
	kit.Publish(ctx, q.subscribers.byJob[info.Id], changed)
}

// publishedMax is how many changed jobs one message has. A subscriber takes some ten microseconds for each.
const publishedMax = 500

func (q *queue) notifyAllSubscribers(ctx actor.Context, infos ...*messages.JobInfo) {
	for jobs := range slices.Chunk(q.subscribers.news(infos...), publishedMax) {
		q.publishChanges(ctx, &messages.JobStatesChanged{Jobs: jobs})
	}
}

func (q *queue) publishChanges(ctx actor.Context, changes *messages.JobStatesChanged) {
	if len(changes.Jobs)+len(changes.Archived) == 0 && changes.EndedTries == 0 {
		return
	}
	kit.Publish(ctx, q.subscribers.all, changes)
}

// notifyOfProgress sends a job whose progress has changed to those who hear of that.
func (q *queue) notifyOfProgress(ctx actor.Context, info *messages.JobInfo) {
	if len(q.subscribers.progress) > 0 {
		kit.Publish(ctx, q.subscribers.progress, &messages.JobStatesChanged{Jobs: []*messages.JobInfo{info}})
	}
}
