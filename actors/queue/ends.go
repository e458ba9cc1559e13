package queue

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// recordEnds writes ends durably into the records of all jobs that depend on the ended
// jobs. done receives the ended jobs for which that has failed.
func (q *queue) recordEnds(ctx actor.Context, ends []end, done func(actor.Context, map[int64]*messages.Failure)) {
	added := q.records.addEnds(ends)
	files := q.records.files(added)
	if len(files) == 0 {
		done(ctx, nil)
		return
	}
	q.store.Write(ctx, &messages.WriteFiles{Durable: true, Files: files}, func(ctx actor.Context, written *messages.ChangeFilesResult) {
		done(ctx, q.records.undo(added, written.Failures))
	})
}

// readArchivedStatus reads a job in this node's archive. known is false if the job is
// not there, or is not final.
func (q *queue) readArchivedStatus(
	ctx actor.Context, op string, id int64,
	done func(ctx actor.Context, status job.Status, known bool, f *messages.Failure),
) {
	q.store.Read(ctx, op, paths.ArchivePath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
		j, err := job.Decode(m.Content)
		if m.Failure != nil || err != nil || !j.Status().Final() {
			done(ctx, 0, false, m.Failure)
			return
		}
		done(ctx, j.Status(), true, nil)
	})
}

// isBeingArchived reports whether a job of the index is on its way to the archive.
func (e *entry) isBeingArchived() bool { return e.stage == changing && e.status().Final() }

// newRecord refers to the record of one job of a submission that is being committed.
type newRecord struct {
	s *submission
	i int
}

func (n newRecord) add(id int64, status job.Status) {
	n.s.records[n.i] = n.s.records[n.i].WithDependencyEnd(id, status)
}

// recordKnownEnds adds to the records of the jobs that are being committed the ends of
// dependencies that are archived, or are being archived.
func (q *queue) recordKnownEnds(ctx actor.Context, done func(actor.Context)) {
	var toRead []int64
	dependents := map[int64][]newRecord{}
	group := q.submissions.committing()
	first := group[0].firstID()
	for _, s := range group {
		for i := range s.jobs {
			for _, b := range s.dependencies[i] {
				e, status, known := q.index.get(b), job.Status(0), false
				if e == nil && b < first {
					status, known = q.records.endOf(b)
				}
				switch {
				case b >= first || e != nil && !e.isBeingArchived(): // the scheduler will learn its end
				case e != nil:
					newRecord{s, i}.add(b, e.status())
				case known:
					newRecord{s, i}.add(b, status)
				default:
					if dependents[b] == nil {
						toRead = append(toRead, b)
					}
					dependents[b] = append(dependents[b], newRecord{s, i})
				}
			}
		}
	}
	remaining := len(toRead)
	if remaining == 0 {
		done(ctx)
		return
	}
	for _, b := range toRead {
		q.readArchivedStatus(ctx, "submit-outcome", b, func(ctx actor.Context, status job.Status, known bool, f *messages.Failure) {
			if known {
				for _, n := range dependents[b] {
					n.add(b, status)
				}
			}
			if f != nil {
				q.retryOutcome(ctx, b, f)
			}
			if remaining--; remaining == 0 {
				done(ctx)
			}
		})
	}
}

// recordArchived records, when the queue starts, the ends of archived jobs that are in
// no record: an earlier version of lockstep, or another node, has archived those jobs.
func (q *queue) recordArchived(ctx actor.Context) {
	toRead := slices.DeleteFunc(q.records.withUnrecordedEnd(), func(id int64) bool { return q.index.get(id) != nil })
	var next func(actor.Context)
	next = func(ctx actor.Context) {
		if len(toRead) == 0 {
			return
		}
		b := toRead[0]
		toRead = toRead[1:]
		q.readArchivedStatus(ctx, "start-outcome", b, func(ctx actor.Context, status job.Status, known bool, _ *messages.Failure) {
			if !known {
				next(ctx)
				return
			}
			q.recordEnds(ctx, []end{{b, status}}, func(ctx actor.Context, failed map[int64]*messages.Failure) {
				q.logEndsNotRecorded(failed)
				next(ctx)
			})
		})
	}
	next(ctx)
}

// logEndsNotRecorded logs ends whose write has failed. The next start of the queue
// tries again.
func (q *queue) logEndsNotRecorded(failed map[int64]*messages.Failure) {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": failed[id].Text}).
			Error("the status of an archived job cannot be recorded beside the jobs that depend on it")
	}
}

// clearOrphanRecords removes or archives records whose job is not in the queue
// directory, before new jobs get their ids. A crash during the archiving of a job
// leaves its record behind; every other such record belongs to no job.
func (q *queue) clearOrphanRecords(ctx actor.Context, serial int64, orphans []int64, next func(actor.Context)) {
	remaining := len(orphans)
	cleared := func(ctx actor.Context, id int64, failures []*messages.FileFailure) {
		for _, f := range failures {
			log := q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": f.Failure.Text})
			switch {
			case f.Missing:
			// A new job will get this id, and would inherit the record.
			case id > serial:
				panic("the record of a submission without a commit record cannot be removed: " + f.Failure.Text)
			default:
				log.Error("the record of a job that is not in the queue can be neither archived nor removed")
			}
		}
		if remaining--; remaining == 0 {
			next(ctx)
		}
	}
	if remaining == 0 {
		next(ctx)
		return
	}
	for _, id := range orphans {
		done := func(ctx actor.Context, m *messages.ChangeFilesResult) { cleared(ctx, id, m.Failures) }
		q.store.Read(ctx, "orphan", paths.ArchivePath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
			switch {
			case id > serial || m.Missing:
				q.store.Remove(ctx, &messages.RemoveFiles{Op: "orphan", Paths: []string{paths.RecordPath(id)}}, done)
			case m.Failure != nil:
				cleared(ctx, id, []*messages.FileFailure{{Failure: m.Failure}})
			default:
				q.store.Move(ctx, &messages.MoveFiles{Files: []*messages.MoveFile{moveRecord(id)}}, done)
			}
		})
	}
}
