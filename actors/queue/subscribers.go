package queue

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

func (q *queue) list(ctx actor.Context, sender *actor.PID, m *messages.ListJobs) {
	ids := m.Ids
	if m.All {
		ids = q.order
	}
	rows := make([]*messages.JobRow, 0, len(ids))
	for _, id := range ids {
		if row := q.row(id); !row.Unknown || !m.All {
			rows = append(rows, row)
		}
	}
	ctx.Send(sender, &messages.ListJobsResult{Request: m.Request, Rows: rows})
}

func (q *queue) row(id int64) *messages.JobRow {
	if e := q.entries[id]; e != nil {
		return &messages.JobRow{Id: id, Info: e.info}
	}
	return &messages.JobRow{Id: id, Unknown: true}
}

// subscribe subscribes the sender to a job, in place of what it watched before. A
// job that is final does not change: there is nothing to subscribe to.
func (q *queue) subscribe(ctx actor.Context, subscriber *actor.PID, m *messages.SubscribeJob) {
	q.unsubscribe(subscriber)
	ctx.Send(subscriber, &messages.SubscribeJobResult{Request: m.Request, Row: q.row(m.Id)})
	e := q.entries[m.Id]
	if e == nil || e.stage == final {
		return
	}
	e.subscribers = append(e.subscribers, subscriber)
	q.subscriptions[subscriber.Id] = m.Id
	ctx.Watch(subscriber)
}

func (q *queue) unsubscribe(subscriber *actor.PID) {
	id, known := q.subscriptions[subscriber.Id]
	if !known {
		return
	}
	delete(q.subscriptions, subscriber.Id)
	if e := q.entries[id]; e != nil {
		e.subscribers = slices.DeleteFunc(e.subscribers, func(p *actor.PID) bool { return p.Equal(subscriber) })
	}
}

func (q *queue) notifySubscribers(ctx actor.Context, e *entry, encoded []byte) {
	q.notifyAllSubscribers(ctx, e)
	changed := &messages.JobChanged{Info: e.info, Encoded: encoded}
	for _, subscriber := range e.subscribers {
		ctx.Send(subscriber, changed)
	}
}

// subscribeAll subscribes the sender to all jobs; to be asked twice changes nothing.
func (q *queue) subscribeAll(ctx actor.Context, subscriber *actor.PID) {
	if !slices.ContainsFunc(q.allSubscribers, subscriber.Equal) {
		q.allSubscribers = append(q.allSubscribers, subscriber)
		ctx.Watch(subscriber)
	}
}

func (q *queue) unsubscribeAll(subscriber *actor.PID) {
	q.allSubscribers = slices.DeleteFunc(q.allSubscribers, subscriber.Equal)
}

// notifiedState is what subscribers of all jobs are told of a job, and jobs do not have for ever.
type notifiedState struct {
	status, priority int32
	dependencyWait   bool
}

// notifyAllSubscribers tells of jobs that are new, or of which something else is shown
// now than was told last: a job that only talks is no news.
func (q *queue) notifyAllSubscribers(ctx actor.Context, entries ...*entry) {
	if len(q.allSubscribers) == 0 {
		return
	}
	changes := &messages.JobStatesChanged{}
	for _, e := range entries {
		now := &notifiedState{status: e.info.Status, priority: e.info.Priority, dependencyWait: e.info.DependencyWait}
		if e.notified == nil || *e.notified != *now {
			e.notified = now
			changes.Jobs = append(changes.Jobs, e.info)
		}
	}
	q.publishChanges(ctx, changes)
}

func (q *queue) publishChanges(ctx actor.Context, changes *messages.JobStatesChanged) {
	if len(changes.Jobs)+len(changes.Archived) == 0 {
		return
	}
	for _, subscriber := range q.allSubscribers {
		ctx.Send(subscriber, changes)
	}
}
