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
	q.tellFollowers(ctx, e)
	changed := &messages.JobChanged{Info: e.info, Encoded: encoded}
	for _, watcher := range e.watchers {
		ctx.Send(watcher, changed)
	}
}

// follow subscribes the sender to all jobs; to be asked twice changes nothing.
func (q *queue) follow(ctx actor.Context, follower *actor.PID) {
	if !slices.ContainsFunc(q.followers, follower.Equal) {
		q.followers = append(q.followers, follower)
		ctx.Watch(follower)
	}
}

func (q *queue) unfollow(follower *actor.PID) {
	q.followers = slices.DeleteFunc(q.followers, follower.Equal)
}

// shown is what followers are told of a job, and jobs do not have for ever.
type shown struct {
	status, priority int32
	held             bool
}

// tellFollowers tells of jobs that are new, or of which something else is shown
// now than was told last: a job that only talks is no news.
func (q *queue) tellFollowers(ctx actor.Context, entries ...*entry) {
	if len(q.followers) == 0 {
		return
	}
	news := &messages.JobNews{}
	for _, e := range entries {
		now := &shown{status: e.info.Status, priority: e.info.Priority, held: e.info.Held}
		if e.told == nil || *e.told != *now {
			e.told = now
			news.Jobs = append(news.Jobs, e.info)
		}
	}
	q.tellNews(ctx, news)
}

func (q *queue) tellNews(ctx actor.Context, news *messages.JobNews) {
	if len(news.Jobs)+len(news.Archived) == 0 {
		return
	}
	for _, follower := range q.followers {
		ctx.Send(follower, news)
	}
}
