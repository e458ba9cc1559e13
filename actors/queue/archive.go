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

// archiving is one request to move finished jobs to the archive.
type archiving struct {
	request uint64
	sender  *actor.PID
	until   time.Time
	left    []int64
	done    int64
}

// archive moves jobs whose file nobody writes any more: a final job's process
// is gone (queue.md 4.9).
func (q *queue) archive(ctx actor.Context, sender *actor.PID, m *messages.ArchiveJobs) {
	now := q.config.Env.Clock().Now()
	a := &archiving{request: m.Request, sender: sender, until: now.Add(time.Duration(m.TimeoutS) * time.Second)}
	if m.Id != 0 {
		a.until = now.Add(time.Hour) // one is no matter of time
		if e := q.entries[m.Id]; e != nil && e.place == final {
			a.left = []int64{m.Id}
		}
		q.archiveNext(ctx, a)
		return
	}
	before := now.Add(-time.Duration(m.AgeS) * time.Second).UnixMicro()
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
		ctx.Send(a.sender, &messages.JobsArchived{Request: a.request, Archived: a.done, Left: int64(len(a.left))})
		return
	}
	batch := a.left[:min(archiveBatch, len(a.left))]
	a.left = a.left[len(batch):]
	m := &messages.MoveFiles{}
	for _, id := range batch {
		m.Files = append(m.Files, &messages.MoveFile{Op: "archive-job", From: layout.JobPath(id), To: layout.ArchivePath(id)})
	}
	q.store.Move(ctx, m, func(ctx actor.Context, moved *messages.FilesDone) {
		failed := map[string]bool{}
		for _, f := range moved.Failures {
			failed[f.Path] = true
		}
		for _, id := range batch {
			if !failed[layout.JobPath(id)] {
				q.forget(id)
				a.done++
			}
		}
		if len(moved.Failures) > 0 {
			ctx.Send(a.sender, &messages.JobsArchived{Request: a.request, Archived: a.done, Left: int64(len(a.left)),
				Failure: moved.Failures[0].Failure})
			return
		}
		q.archiveNext(ctx, a)
	})
}

// forget drops a job from the index. Its place in the order goes when half of
// the order is such places: the cost of one does not grow with the queue.
func (q *queue) forget(id int64) {
	delete(q.entries, id)
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
