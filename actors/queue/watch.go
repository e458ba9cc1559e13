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
	ctx.Send(sender, &messages.JobsListed{Request: m.Request, Rows: rows})
}

func (q *queue) row(id int64) *messages.JobRow {
	if e := q.entries[id]; e != nil {
		return &messages.JobRow{Id: id, Info: e.info}
	}
	return &messages.JobRow{Id: id, Unknown: true}
}

// watch subscribes the sender to a job, in place of what it watched before. A
// job that is final does not change: there is nothing to subscribe to.
func (q *queue) watch(ctx actor.Context, watcher *actor.PID, m *messages.WatchJob) {
	q.unwatch(watcher)
	ctx.Send(watcher, &messages.JobWatched{Request: m.Request, Row: q.row(m.Id)})
	e := q.entries[m.Id]
	if e == nil || e.place == final {
		return
	}
	e.watchers = append(e.watchers, watcher)
	q.watching[watcher.Id] = m.Id
	ctx.Watch(watcher)
}

func (q *queue) unwatch(watcher *actor.PID) {
	id, known := q.watching[watcher.Id]
	if !known {
		return
	}
	delete(q.watching, watcher.Id)
	if e := q.entries[id]; e != nil {
		e.watchers = slices.DeleteFunc(e.watchers, func(p *actor.PID) bool { return p.Equal(watcher) })
	}
}

func (q *queue) tellWatchers(ctx actor.Context, e *entry, encoded []byte) {
	changed := &messages.JobChanged{Info: e.info, Encoded: encoded}
	for _, watcher := range e.watchers {
		ctx.Send(watcher, changed)
	}
}
