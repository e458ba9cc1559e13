package queue

import (
	"bytes"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// A node's archive may lack jobs that others depend on: they were archived before it
// joined the cluster, or removed since. So how a job has ended is recorded beside each
// unfinished job that depends on it, durably, before it goes to the archive.

// dependents are the jobs, not ended, that depend on a job, by its id. Those that are
// being committed are among them.
type dependents map[int64]map[int64]struct{}

// dependenciesOf are the earlier jobs that opcodes of a job depend on, each once.
func dependenciesOf(j *job.Job) []int64 {
	var ids []int64
	for i := range j.Ops {
		if !bytes.Contains(j.Ops[i].Input, []byte(`"depends"`)) {
			continue
		}
		deps, _ := opcode.Depends(j.Ops[i].Input) // an opcode that is none will fail by itself
		for _, d := range deps {
			if d.Job > 0 && d.Job < int64(j.ID) {
				ids = append(ids, d.Job)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (d dependents) add(id int64, dependencies []int64) {
	for _, b := range dependencies {
		if d[b] == nil {
			d[b] = map[int64]struct{}{}
		}
		d[b][id] = struct{}{}
	}
}

func (d dependents) drop(id int64, dependencies []int64) {
	for _, b := range dependencies {
		if delete(d[b], id); len(d[b]) == 0 {
			delete(d, b)
		}
	}
}

// of are the jobs that depend on one, ascending.
func (d dependents) of(id int64) []int64 { return slices.Sorted(maps.Keys(d[id])) }

// putRecord is what is known of a job beside its file.
func (q *queue) putRecord(e *entry, dependencies []int64, r record.Record) {
	e.dependencies, e.record, e.recorded = dependencies, r, !r.Empty()
	q.dependents.add(e.info.Id, dependencies)
}

// dropDependencies: the job has ended, and depends on nothing any more.
func (q *queue) dropDependencies(e *entry) {
	q.dependents.drop(e.info.Id, e.dependencies)
	e.dependencies = nil
}

// endOf is that of a job that is not in the queue, as far as the records say.
func (q *queue) endOf(id int64) (job.Status, bool) {
	for waiter := range q.dependents[id] { // they all say the same
		if e := q.entries[waiter]; e != nil {
			if status, known := e.record.DependencyEnd(id); known {
				return status, true
			}
		}
	}
	return 0, false
}

func (q *queue) isEndRecorded(id int64) bool {
	_, known := q.endOf(id)
	return known
}

// end is how a job has ended.
type end struct {
	id     int64
	status job.Status
}

// recordEnds notes ends beside all jobs that depend on them; done is told which could
// not be noted, durably, and why.
func (q *queue) recordEnds(ctx actor.Context, ends []end, done func(actor.Context, map[int64]*messages.Failure)) {
	added := map[int64][]int64{} // by job: whose ends are new in its record
	for _, x := range ends {
		for _, waiter := range q.dependents.of(x.id) {
			e := q.entries[waiter]
			if e == nil {
				continue // it is being committed, and looks for itself
			}
			if _, known := e.record.DependencyEnd(x.id); !known {
				e.record, e.recorded = e.record.WithDependencyEnd(x.id, x.status), true
				added[waiter] = append(added[waiter], x.id)
			}
		}
	}
	if len(added) == 0 {
		done(ctx, nil)
		return
	}
	write := &messages.WriteFiles{Durable: true}
	for _, waiter := range slices.Sorted(maps.Keys(added)) {
		write.Files = append(write.Files, recordFile("record-job", waiter, q.entries[waiter].record))
	}
	q.store.Write(ctx, write, func(ctx actor.Context, written *messages.ChangeFilesResult) {
		failed := map[int64]*messages.Failure{}
		for _, f := range written.Failures {
			for waiter, ids := range added {
				if paths.RecordPath(waiter) != f.Path {
					continue
				}
				for _, id := range ids {
					failed[id] = f.Failure
					if e := q.entries[waiter]; e != nil {
						e.record = e.record.WithoutDependencyEnd(id) // what the disk has is true, but perhaps not durable
					}
				}
			}
		}
		done(ctx, failed)
	})
}

func recordFile(op string, id int64, r record.Record) *messages.FileWrite {
	return &messages.FileWrite{Op: op, Path: paths.RecordPath(id), Content: r.Encode()}
}

// readArchivedStatus looks for a job in this node's archive. known is false if it is not
// there, or not a job that has ended.
func (q *queue) readArchivedStatus(ctx actor.Context, op string, id int64, done func(ctx actor.Context, status job.Status, known bool, f *messages.Failure)) {
	q.store.Read(ctx, op, paths.ArchivePath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
		j, err := job.Decode(m.Content)
		if m.Failure != nil || err != nil || !j.Status().Final() {
			done(ctx, 0, false, m.Failure)
			return
		}
		done(ctx, j.Status(), true, nil)
	})
}

// recordKnownEnds records, in the jobs that are being committed, the ends of those that
// they depend on and that are archived, or on their way.
func (q *queue) recordKnownEnds(ctx actor.Context, done func(actor.Context)) {
	type asker struct {
		s *submission
		i int
	}
	var order []int64
	dependents := map[int64][]asker{}
	first := q.group[0].firstID()
	for _, s := range q.group {
		for i := range s.jobs {
			for _, b := range s.dependencies[i] {
				switch e := q.entries[b]; {
				case b >= first || e != nil && (e.stage != changing || !e.status().Final()): // it is in the queue
				case e != nil: // it is being archived
					s.records[i] = s.records[i].WithDependencyEnd(b, e.status())
				case q.isEndRecorded(b):
					status, _ := q.endOf(b)
					s.records[i] = s.records[i].WithDependencyEnd(b, status)
				default:
					if dependents[b] == nil {
						order = append(order, b)
					}
					dependents[b] = append(dependents[b], asker{s, i})
				}
			}
		}
	}
	remaining := len(order)
	if remaining == 0 {
		done(ctx)
		return
	}
	for _, b := range order {
		q.readArchivedStatus(ctx, "submit-outcome", b, func(ctx actor.Context, status job.Status, known bool, f *messages.Failure) {
			for _, a := range dependents[b] {
				if known {
					a.s.records[a.i] = a.s.records[a.i].WithDependencyEnd(b, status)
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

// recordArchived notes, when the queue starts, the ends that are in this node's archive
// and in no record: a former version has archived those jobs, or another node.
func (q *queue) recordArchived(ctx actor.Context) {
	var dependencies []int64
	for _, b := range slices.Sorted(maps.Keys(q.dependents)) {
		if q.entries[b] != nil {
			continue
		}
		if slices.ContainsFunc(q.dependents.of(b), func(waiter int64) bool {
			_, known := q.entries[waiter].record.DependencyEnd(b)
			return !known
		}) {
			dependencies = append(dependencies, b)
		}
	}
	var next func(actor.Context)
	next = func(ctx actor.Context) {
		if len(dependencies) == 0 {
			return
		}
		b := dependencies[0]
		dependencies = dependencies[1:]
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

// logEndsNotRecorded complains of what is tried again when the queue starts next.
func (q *queue) logEndsNotRecorded(failed map[int64]*messages.Failure) {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": failed[id].Text}).
			Error("how an archived job has ended cannot be recorded beside those that depend on it")
	}
}

// clearOrphanRecords clears records away that have no job in the queue, before anybody else
// may have their ids: of a job that was archived a crash may have left the record
// behind; any other belongs to nothing.
func (q *queue) clearOrphanRecords(ctx actor.Context, serial int64, orphans []int64, next func(actor.Context)) {
	remaining := len(orphans)
	cleared := func(ctx actor.Context, id int64, failures []*messages.FileFailure) {
		for _, f := range failures {
			log := q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": f.Failure.Text})
			switch {
			case f.Missing:
			case id > serial:
				panic("the record of a submission that was cut off cannot be removed: " + f.Failure.Text)
			default:
				log.Error("the record of a job that is not in the queue cannot be cleared away")
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

func moveRecord(id int64) *messages.MoveFile {
	return &messages.MoveFile{Op: "archive-record", From: paths.RecordPath(id), To: paths.ArchivedRecordPath(id)}
}
