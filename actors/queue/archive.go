package queue

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
	"lockstep/messages"
)

// archiveBatch is how many files move together, with one sync of their
// directories.
const archiveBatch = 100

// archiveMax is how long one request may archive, whatever time the client
// grants: it waits for an answer, and asks again for the rest.
const archiveMax = 50 * time.Second

// archiving is one request to move finished jobs to the archive.
type archiving struct {
	request uint64
	sender  *actor.PID
	until   time.Time
	left    []int64
	done    int64
	failure *messages.Failure // the first
}

// secondsMax bounds what a client may send as a number of seconds: two and a half
// centuries do not overflow, and are for ever.
const secondsMax = 9_000_000_000

func seconds(n int64) time.Duration { return time.Duration(max(0, min(n, secondsMax))) * time.Second }

// archive moves jobs whose file nobody writes any more: a final job's process
// is gone (queue.md 4.9).
func (q *queue) archive(ctx actor.Context, sender *actor.PID, m *messages.ArchiveJobs) {
	now := q.config.Env.Clock().Now()
	a := &archiving{request: m.Request, sender: sender, until: now.Add(min(seconds(m.TimeoutS), archiveMax))}
	if m.Id != 0 {
		a.until = now.Add(time.Hour) // one is no matter of time
		if e := q.entries[m.Id]; e != nil && e.place == final {
			a.left = []int64{m.Id}
		}
		q.archiveNext(ctx, a)
		return
	}
	before := now.Add(-seconds(m.AgeS)).UnixMicro()
	for _, id := range q.order {
		e := q.entries[id]
		if e == nil || e.place != final || e.status().On(job.Archive).Verdict != job.Stays {
			continue
		}
		if ended := max(e.info.EndUs, e.info.StartUs); m.AgeS < 0 || ended < before {
			a.left = append(a.left, id)
		}
	}
	q.archiveNext(ctx, a)
}

func (q *queue) archiveNext(ctx actor.Context, a *archiving) {
	if len(a.left) == 0 || q.config.Env.Clock().Now().After(a.until) {
		ctx.Send(a.sender, &messages.JobsArchived{Request: a.request, Archived: a.done, Left: int64(len(a.left)), Failure: a.failure})
		return
	}
	batch, m := q.nextToArchive(a)
	q.store.Move(ctx, m, func(ctx actor.Context, moved *messages.FilesDone) {
		failed := map[string]*messages.FileFailure{}
		for _, f := range moved.Failures {
			failed[f.Path] = f
		}
		news := &messages.JobNews{}
		for _, id := range batch {
			q.archived(a, id, failed[layout.JobPath(id)])
			if q.entries[id] == nil {
				news.Archived = append(news.Archived, id)
			}
		}
		q.tellNews(ctx, news)
		q.archiveNext(ctx, a)
	})
}

// archived notes what has become of one job. A file that somebody has taken away
// is no job any more; one that cannot be moved stays, and does not keep the
// others.
func (q *queue) archived(a *archiving, id int64, f *messages.FileFailure) {
	switch {
	case f == nil:
		q.forget(id)
		a.done++
	case f.Missing:
		q.config.Env.Log().WithField("job", id).Error("a finished job's file is gone; the job is forgotten")
		q.forget(id)
	default:
		q.entries[id].place = final
		if a.failure == nil {
			a.failure = f.Failure
		}
	}
}

// nextToArchive takes some jobs off the list, but for those that somebody else is
// archiving or has archived; they are nobody else's until they are moved.
func (q *queue) nextToArchive(a *archiving) (batch []int64, m *messages.MoveFiles) {
	m = &messages.MoveFiles{}
	for len(a.left) > 0 && len(batch) < archiveBatch {
		id := a.left[0]
		a.left = a.left[1:]
		e := q.entries[id]
		if e == nil || e.place != final {
			continue
		}
		e.place = changing
		batch = append(batch, id)
		m.Files = append(m.Files, &messages.MoveFile{Op: "archive-job", From: layout.JobPath(id), To: layout.ArchivePath(id)})
	}
	return batch, m
}

// forget drops a job from the index. Its place in the order goes when half of
// the order is such places: the cost of one does not grow with the queue.
func (q *queue) forget(id int64) {
	delete(q.entries, id)
	q.requests.drop(id)
	if len(q.order) < 2*len(q.entries)+64 {
		return
	}
	kept := make([]int64, 0, len(q.entries))
	for _, id := range q.order {
		if q.entries[id] != nil {
			kept = append(kept, id)
		}
	}
	q.order = kept
}
