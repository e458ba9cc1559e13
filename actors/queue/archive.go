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

// archiveBatch is how many files are moved together, with one sync of their directories.
const archiveBatch = 100

// archiveMax bounds the time that one request takes, whatever the client permits. The
// client waits for the answer, and may ask again for the remaining jobs.
const archiveMax = 50 * time.Second

// archiving is one request to archive final jobs, or one tick of the archiver.
type archiving struct {
	request   uint64
	sender    *actor.PID        // nil: no actor waits for the answer
	deadline  time.Time         // no batch begins after it
	remaining []int64           // jobs that no batch has contained yet
	done      int64             // number of archived jobs
	failure   *messages.Failure // the first failure
	due       []int64           // of a tick: all its jobs; nil for a request
}

// secondsMax bounds a client's number of seconds, so that it does not overflow a
// duration: about 285 years.
const secondsMax = 9_000_000_000

func seconds(n int64) time.Duration { return time.Duration(max(0, min(n, secondsMax))) * time.Second }

// archive moves the files of final jobs to the archive: of one job, of all that have ended longer ago than AgeS, or of all if AgeS is
// negative. A single job that is not final stays, which is no error. Of a user who may change only own jobs, those of others stay. The
// process of a final job is gone, so that no process writes the file (queue.md 4.9).
func (q *queue) archive(ctx actor.Context, sender *actor.PID, m *messages.ArchiveJobs) {
	now := q.config.Env.Clock().Now()
	a := &archiving{request: m.Request, sender: sender, deadline: now.Add(min(seconds(m.TimeoutS), archiveMax))}
	if m.Id != 0 {
		if f := q.refusal(m.Id, m.OnlyOf, "archive it", m.By); f != nil {
			ctx.Send(sender, &messages.ArchiveJobsResult{Request: m.Request, Failure: f})
			return
		}
		a.deadline = now.Add(time.Hour) // a single job is always archived
		if e := q.index.get(m.Id); e != nil && e.stage == final {
			a.remaining = []int64{m.Id}
		}
		q.archiveNext(ctx, a)
		return
	}
	before := now.Add(-seconds(m.AgeS)).UnixMicro()
	for _, id := range slices.Sorted(maps.Keys(q.index.finals)) {
		e := q.index.get(id)
		if !e.status().Final() || !q.belongsTo(e, m.OnlyOf) {
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
		if a.due != nil {
			q.dueArchived(ctx, a)
			return
		}
		if a.sender == nil {
			return
		}
		ctx.Send(a.sender, &messages.ArchiveJobsResult{
			Request:   a.request,
			Archived:  a.done,
			Remaining: int64(len(a.remaining)),
			Failure:   a.failure,
		})
		return
	}
	q.archiveBatch(ctx, a, q.takeArchiveBatch(a))
}

// takeArchiveBatch takes jobs from the list and makes them changing, so that no other
// request archives them. It skips jobs that another request archives or has archived.
func (q *queue) takeArchiveBatch(a *archiving) (batch []int64) {
	for len(a.remaining) > 0 && len(batch) < archiveBatch {
		id := a.remaining[0]
		a.remaining = a.remaining[1:]
		e := q.index.get(id)
		if e == nil || e.stage != final || q.holds.changing[id] {
			continue
		}
		q.index.setStage(e, changing)
		batch = append(batch, id)
	}
	return batch
}

// archiveBatch records how the jobs have ended in the records of the jobs that depend
// on them, then moves the files. If a job that is being committed depends on one of
// them, the batch waits for the end of the commit.
func (q *queue) archiveBatch(ctx actor.Context, a *archiving, batch []int64) {
	if q.submissions.group != nil && slices.ContainsFunc(batch, q.records.hasUncommitted) {
		q.submissions.afterCommit = append(q.submissions.afterCommit, func(ctx actor.Context) { q.archiveBatch(ctx, a, batch) })
		return
	}
	ends := make([]end, len(batch))
	for i, id := range batch {
		ends[i] = end{id, q.index.get(id).status()}
	}
	// Before the files leave the queue directory: a crash in between leaves the end in both places, never in neither.
	q.recordEnds(ctx, ends, func(ctx actor.Context, failed map[int64]*messages.Failure) {
		recorded := batch[:0:0]
		for _, id := range batch {
			if f := failed[id]; f != nil {
				q.notArchived(a, id, f)
			} else {
				recorded = append(recorded, id)
			}
		}
		q.moveToArchive(ctx, a, recorded)
	})
}

// moveToArchive moves the job files, then the job records. After a crash in between
// the next start finds records without jobs, and moves them. A job leaves the index when
// both are moved, so that it is found at every moment, and with its record. A job whose
// file does not exist leaves the index; a job whose file cannot be moved stays final.
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
			switch f := failed[paths.JobPath(id)]; {
			case f == nil:
				a.done++
			case f.Missing:
				q.config.Env.Log().WithField("job", id).Error("the file of a final job is missing; the job is forgotten")
			default:
				q.movedHalfway(ctx, q.index.get(id))
				q.notArchived(a, id, f.Failure)
				continue
			}
			changes.Archived = append(changes.Archived, id)
			if q.records.hasFile(id) {
				records.Files = append(records.Files, moveRecord(id))
			}
		}
		q.moveRecords(ctx, records, func(ctx actor.Context) {
			for _, id := range changes.Archived {
				q.removeJob(id)
			}
			q.publishChanges(ctx, changes)
			q.archiveNext(ctx, a)
		})
	})
}

// fileMissed forgets a final job whose file was removed, so that a list has the same jobs as a question for one. The
// queue looks itself: what the message says may be older than a move to the archive, or than a repair by hand. That the file is
// missing is then found again by the move, after the jobs that depend on this one have its end in their records.
func (q *queue) fileMissed(ctx actor.Context, id int64) {
	e := q.index.get(id)
	if e == nil || e.stage != final || q.holds.changing[id] {
		return
	}
	q.index.setStage(e, changing)
	q.store.Read(ctx, "check-job", paths.JobPath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if !m.Missing {
			q.index.setStage(q.index.get(id), final)
			return
		}
		q.archiveBatch(ctx, &archiving{}, []int64{id})
	})
}

// notArchived makes a job final again that could not be archived.
func (q *queue) notArchived(a *archiving, id int64, f *messages.Failure) {
	q.index.setStage(q.index.get(id), final)
	if a.failure == nil {
		a.failure = f
	}
}

// removeJob drops an archived job from memory: from the index, the records, the subscriptions and the names of submissions.
func (q *queue) removeJob(id int64) {
	if q.archiver.keeper != nil {
		q.archiver.keeper.Forget(q.endedJob(q.index.get(id)))
	}
	delete(q.archiver.halfway, id)
	q.index.remove(id)
	q.submissions.named.drop(id)
	q.subscribers.forget(id)
	q.records.remove(id)
}

// moveRecords moves records to the archive. A record that is missing was never
// written, because its directory could not be written.
func (q *queue) moveRecords(ctx actor.Context, m *messages.MoveFiles, done func(actor.Context)) {
	if len(m.Files) == 0 {
		done(ctx)
		return
	}
	q.store.Move(ctx, m, func(ctx actor.Context, moved *messages.ChangeFilesResult) {
		for _, f := range moved.Failures {
			if !f.Missing {
				q.config.Env.Log().WithFields(logrus.Fields{"path": f.Path, "err": f.Failure.Text}).
					Error("the record of an archived job cannot be archived before the next start")
			}
		}
		done(ctx)
	})
}
