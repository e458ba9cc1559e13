package queue

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/paths"
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
	request   uint64
	sender    *actor.PID
	deadline  time.Time
	remaining []int64
	done      int64
	failure   *messages.Failure // the first
}

// secondsMax bounds what a client may send as a number of seconds: two and a half
// centuries do not overflow, and are for ever.
const secondsMax = 9_000_000_000

func seconds(n int64) time.Duration { return time.Duration(max(0, min(n, secondsMax))) * time.Second }

// archive moves jobs whose file nobody writes any more: a final job's process
// is gone (queue.md 4.9).
func (q *queue) archive(ctx actor.Context, sender *actor.PID, m *messages.ArchiveJobs) {
	now := q.config.Env.Clock().Now()
	a := &archiving{request: m.Request, sender: sender, deadline: now.Add(min(seconds(m.TimeoutS), archiveMax))}
	if m.Id != 0 {
		a.deadline = now.Add(time.Hour) // one is no matter of time
		if e := q.entries[m.Id]; e != nil && e.stage == final {
			a.remaining = []int64{m.Id}
		}
		q.archiveNext(ctx, a)
		return
	}
	before := now.Add(-seconds(m.AgeS)).UnixMicro()
	for _, id := range slices.Sorted(maps.Keys(q.tally.finals)) {
		e := q.entries[id]
		if !e.status().Final() {
			continue
		}
		if ended := max(e.info.EndUs, e.info.StartUs); m.AgeS < 0 || ended < before {
			a.remaining = append(a.remaining, id)
		}
	}
	q.archiveNext(ctx, a)
}

func (q *queue) archiveNext(ctx actor.Context, a *archiving) {
	if len(a.remaining) == 0 || q.config.Env.Clock().Now().After(a.deadline) {
		ctx.Send(a.sender, &messages.ArchiveJobsResult{Request: a.request, Archived: a.done, Remaining: int64(len(a.remaining)), Failure: a.failure})
		return
	}
	q.archiveBatch(ctx, a, q.takeArchiveBatch(a))
}

// archiveBatch first records how these jobs have ended, beside those that depend on
// them. A job of the commit that is running may be one of these.
func (q *queue) archiveBatch(ctx actor.Context, a *archiving, batch []int64) {
	if q.group != nil && slices.ContainsFunc(batch, q.hasUncommitted) {
		q.afterCommit = append(q.afterCommit, func(ctx actor.Context) { q.archiveBatch(ctx, a, batch) })
		return
	}
	ends := make([]end, len(batch))
	for i, id := range batch {
		ends[i] = end{id, q.entries[id].status()}
	}
	q.recordEnds(ctx, ends, func(ctx actor.Context, failed map[int64]*messages.Failure) {
		recorded := batch[:0:0]
		for _, id := range batch {
			if f := failed[id]; f != nil {
				q.archiveDone(a, id, &messages.FileFailure{Failure: f})
			} else {
				recorded = append(recorded, id)
			}
		}
		q.moveToArchive(ctx, a, recorded)
	})
}

// hasUncommitted: a job that is being committed depends on this one.
func (q *queue) hasUncommitted(id int64) bool {
	for waiter := range q.dependents[id] {
		if q.entries[waiter] == nil {
			return true
		}
	}
	return false
}

// moveToArchive moves job files, and then their records: after a crash in between the
// next start finds records without jobs, and moves them.
func (q *queue) moveToArchive(ctx actor.Context, a *archiving, batch []int64) {
	m := &messages.MoveFiles{}
	for _, id := range batch {
		m.Files = append(m.Files, &messages.MoveFile{Op: "archive-job", From: paths.JobPath(id), To: paths.ArchivePath(id)})
	}
	q.store.Move(ctx, m, func(ctx actor.Context, moved *messages.ChangeFilesResult) {
		failed := map[string]*messages.FileFailure{}
		for _, f := range moved.Failures {
			failed[f.Path] = f
		}
		changes, records := &messages.JobStatesChanged{}, &messages.MoveFiles{}
		for _, id := range batch {
			e := q.entries[id]
			q.archiveDone(a, id, failed[paths.JobPath(id)])
			if q.entries[id] != nil {
				continue
			}
			changes.Archived = append(changes.Archived, id)
			if e.recorded {
				records.Files = append(records.Files, moveRecord(id))
			}
		}
		q.publishChanges(ctx, changes)
		q.moveRecords(ctx, records, func(ctx actor.Context) { q.archiveNext(ctx, a) })
	})
}

func (q *queue) moveRecords(ctx actor.Context, m *messages.MoveFiles, done func(actor.Context)) {
	if len(m.Files) == 0 {
		done(ctx)
		return
	}
	q.store.Move(ctx, m, func(ctx actor.Context, moved *messages.ChangeFilesResult) {
		for _, f := range moved.Failures {
			if !f.Missing { // it was never written, for its directory could not be
				q.config.Env.Log().WithFields(logrus.Fields{"file": f.Path, "err": f.Failure.Text}).
					Error("the record of an archived job is moved at the next start")
			}
		}
		done(ctx)
	})
}

// archiveDone notes what has become of one job. A file that somebody has taken away
// is no job any more; one that cannot be moved stays, and does not keep the
// others.
func (q *queue) archiveDone(a *archiving, id int64, f *messages.FileFailure) {
	switch {
	case f == nil:
		q.removeEntry(id)
		a.done++
	case f.Missing:
		q.config.Env.Log().WithField("job", id).Error("a finished job's file is gone; the job is forgotten")
		q.removeEntry(id)
	default:
		q.entries[id].stage = final
		q.updateTally(id, q.entries[id])
		if a.failure == nil {
			a.failure = f.Failure
		}
	}
}

// takeArchiveBatch takes some jobs off the list, but for those that somebody else is
// archiving or has archived; they are nobody else's until they are moved.
func (q *queue) takeArchiveBatch(a *archiving) (batch []int64) {
	for len(a.remaining) > 0 && len(batch) < archiveBatch {
		id := a.remaining[0]
		a.remaining = a.remaining[1:]
		e := q.entries[id]
		if e == nil || e.stage != final {
			continue
		}
		e.stage = changing
		q.updateTally(id, e)
		batch = append(batch, id)
	}
	return batch
}

// removeEntry drops a job from the index. Its place in the order goes when half of
// the order is such places: the cost of one does not grow with the queue.
func (q *queue) removeEntry(id int64) {
	q.tally.remove(id, q.entries[id])
	delete(q.entries, id)
	q.submissions.drop(id)
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
