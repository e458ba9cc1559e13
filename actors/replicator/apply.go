package replicator

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// applying is what is on its way from the log to this node's disk: a batch of entries, a
// part of a snapshot, or nothing.
type applying struct {
	batch    *batch // nil if none
	next     *batch // committed entries that follow the batch; nil if none
	snapshot snapshot
	// failure is why the disk refuses it; nil while the disk does not.
	failure *messages.Failure
}

// batch is a number of entries on their way to the disk. Entries that are committed meanwhile make the next batch.
type batch struct {
	entries []*messages.LogEntry
	index   uint64    // of the last entry
	size    int       // of the encoded entries, in bytes
	since   time.Time // when the first entry came
	urgent  bool      // an entry may not wait, see replication.MayWait
	waits   bool      // a timer calls beginNext
	// steps are the requests to the store that are not done, in order: they may be about
	// the same files. nil until the files have been read that the entries may not overwrite.
	steps []*messages.AccessStore
	// failures are the files that were missing, by path.
	failures map[string]*messages.FileFailure
	tries    int // refusals by the disk
}

// snapshot is a snapshot of which parts arrive in order from 1.
type snapshot struct {
	part    *messages.LogSnapshotReceived // on its way to the disk; nil if none
	running replication.RunningJobs       // the running jobs of the snapshot
	files   map[string]bool               // paths in the parts so far
	config  journal.Contents              // from the parts so far
}

// newBatch decodes entries. An entry that cannot be decoded panics: without it this node
// would differ from the others.
func newBatch(m *messages.LogCommitted) *batch {
	b := &batch{failures: map[string]*messages.FileFailure{}}
	for _, c := range m.Entries {
		entry, err := messages.UnmarshalLogEntry(c.Entry)
		if err != nil {
			panic(fmt.Errorf("decode the entry with index %d: %w", c.Index, err))
		}
		b.entries, b.index, b.size = append(b.entries, entry), c.Index, b.size+len(c.Entry)
		b.urgent = b.urgent || !replication.MayWait(entry)
	}
	return b
}

// numbersOf returns the numbers of the proposals of self among the entries.
func (b *batch) numbersOf(self replication.Applier) []uint64 {
	var numbers []uint64
	for _, e := range b.entries {
		if e.Origin == self.Node && e.Incarnation == self.Incarnation {
			numbers = append(numbers, e.Number)
		}
	}
	return numbers
}

// stepDone takes the failures of the first step. If the disk has refused files, stepDone
// returns why, and the step is reduced to these files. A missing file is not tried again: the
// requester gets the failure.
func (b *batch) stepDone(failures []*messages.FileFailure) *messages.Failure {
	refused := map[string]bool{}
	var why *messages.Failure
	for _, f := range failures {
		if f.Missing {
			b.failures[f.Path] = f
		} else {
			refused[f.Path], why = true, f.Failure
		}
	}
	if why != nil {
		b.steps[0] = replication.Remaining(b.steps[0], refused)
	} else {
		b.steps = b.steps[1:]
	}
	return why
}

// attach takes what the log remembers of an earlier incarnation or daemon.
func (r *replicator) attach(m *messages.LogAttached) {
	if m.Incarnation != r.incarnation {
		return
	}
	r.replica.attach(m.Applied, m.State)
	r.attached = true
}

// committed applies entries in their order. It repeats what the disk refuses until all
// are on the disk: this node must have every entry. Requests that wait for the commit alone
// are answered at once.
func (r *replicator) committed(ctx actor.Context, m *messages.LogCommitted) {
	b := newBatch(m)
	if r.applying.next == nil {
		b.since = r.config.Env.Clock().Now()
		r.applying.next = b
	} else {
		r.applying.next.extend(b)
	}
	// Before the disk has them: a majority does, so that they cannot be lost. Proposals that had to follow them are offered, and requests
	// that need no more are answered.
	for _, number := range b.numbersOf(r.config.Self) {
		r.commitTimes.logged(number)
		r.proposals.logged(ctx, number)
	}
	r.beginNext(ctx)
}

// extend adds entries that follow those of a batch that has not begun.
func (b *batch) extend(later *batch) {
	b.entries, b.index = append(b.entries, later.entries...), later.index
	b.size, b.urgent = b.size+later.size, b.urgent || later.urgent
}

// Bounds of a batch that a follower collects. They are below those of the entries that the log gives before earlier
// ones are on the disk.
const (
	collectPause   = 100 * time.Millisecond
	collectEntries = 256
	collectBytes   = 4 << 20
)

// collects is for how long this node waits for more entries before it applies a batch; 0: it applies the batch now. A node
// that follows another may be behind, since the log has the entries. It writes a file once that changes several times
// meanwhile, and syncs a directory once for many files.
func (r *replicator) collects(b *batch) time.Duration {
	follows := !r.mastership.leads && r.mastership.leader != "" && !r.stopping
	if !follows || b.urgent || len(b.entries) >= collectEntries || b.size >= collectBytes {
		return 0
	}
	return max(0, collectPause-r.config.Env.Clock().Now().Sub(b.since))
}

// beginNext applies the next batch, unless one is being applied or more entries are awaited.
func (r *replicator) beginNext(ctx actor.Context) {
	b := r.applying.next
	if r.applying.batch != nil || b == nil {
		return
	}
	if pause := r.collects(b); pause > 0 {
		if !b.waits {
			b.waits = true
			r.retryAfter(ctx, pause, r.beginNext)
		}
		return
	}
	// One batch at a time, because entries may be about the same files: the disk gets them in the order of the log.
	r.applying.batch, r.applying.next = b, nil
	r.applyBatch(ctx, b)
}

// readLocal reads the files that the entries may not overwrite, then applies the entries.
func (r *replicator) readLocal(ctx actor.Context, b *batch) {
	local := map[string][]byte{}
	toRead := r.config.Self.PathsToRead(b.entries)
	remaining, failure := len(toRead), (*messages.Failure)(nil)
	done := func(ctx actor.Context) {
		if failure != nil {
			r.retryDisk(ctx, b, failure, r.readLocal)
			return
		}
		// Decided when all files are read: an entry from before a restart must not undo what a job process has written since
		// (replication.Supersedes).
		b.steps = r.config.Self.Apply(b.entries, local)
		r.applyNext(ctx, b)
	}
	for _, file := range toRead {
		r.store.Read(ctx, "apply", file, func(ctx actor.Context, f *messages.ReadFileResult) {
			if f.Failure != nil {
				failure = f.Failure
			}
			local[file] = f.Content
			if remaining--; remaining == 0 {
				done(ctx)
			}
		})
	}
	if remaining == 0 {
		done(ctx)
	}
}

func (r *replicator) applyNext(ctx actor.Context, b *batch) {
	if len(b.steps) == 0 {
		r.batchWritten(ctx, b)
		return
	}
	done := func(ctx actor.Context, m *messages.ChangeFilesResult) {
		if why := b.stepDone(m.Failures); why != nil {
			r.retryDisk(ctx, b, why, r.applyNext)
			return
		}
		r.applyNext(ctx, b)
	}
	// The next step waits for the answer to this one, whose files it may rename or remove.
	switch what := b.steps[0].What.(type) {
	case *messages.AccessStore_Write:
		r.store.Write(ctx, what.Write, done)
	case *messages.AccessStore_Move:
		r.store.Move(ctx, what.Move, done)
	case *messages.AccessStore_Remove:
		r.store.Remove(ctx, what.Remove, done)
	}
}

// batchWritten takes a batch that is on the disk, tells the log, answers the requests of this node, and begins the next batch.
func (r *replicator) batchWritten(ctx actor.Context, b *batch) {
	if r.applying.failure != nil {
		r.config.Env.Log().Info("replication resumed after disk error")
		r.applying.failure = nil
	}
	r.applying.batch = nil
	r.replica.apply(b.index, b.entries)
	// Only now: from here on the log may drop the entries. Dropped before this node's disk has them, they would be missing after a crash.
	r.config.Log.Applied(b.index, r.replica.running.Encode())
	r.takeTimes(b.entries)
	// Answered last: whatever a requester asks next finds the change on the disk and in the replica.
	for _, number := range b.numbersOf(r.config.Self) {
		r.proposals.finish(ctx, number, b.failures)
	}
	r.observations.forgetEnded(r.replica.running)
	r.performDeferred(ctx)
	r.beginNext(ctx)
	r.answerDrain(ctx)
}

// drain answers when the entries that this node has are on its disk, so that its files are not behind while it is stopped.
func (r *replicator) drain(ctx actor.Context) {
	r.draining, r.stopping = ctx.Sender(), true
	r.beginNext(ctx)
	r.answerDrain(ctx)
}

func (r *replicator) answerDrain(ctx actor.Context) {
	if r.draining != nil && r.applying.batch == nil {
		ctx.Request(r.draining, &messages.DrainResult{})
		r.draining = nil
	}
}

// retryDisk tries again until the disk accepts the batch. A leader hands the leadership
// over meanwhile, because its actors would wait for the disk.
func (r *replicator) retryDisk(ctx actor.Context, b *batch, why *messages.Failure, again func(actor.Context, *batch)) {
	delay := kit.Backoff(b.tries)
	r.config.Env.Log().WithFields(logrus.Fields{"err": why.Text, "delay": delay}).
		Error("committed entries cannot be written to this node's disk; the write is repeated")
	r.applying.failure = why
	b.tries++
	if r.mastership.leads {
		r.config.Log.Change(0, Change{What: messages.ChangeNodes_TRANSFER})
	}
	r.retryAfter(ctx, delay, func(ctx actor.Context) {
		if r.applying.batch == b {
			again(ctx, b)
		}
	})
}

// restore writes a part of a snapshot to the disk. With the last part, files are removed
// that the snapshot lacks: they were removed while this node was away.
func (r *replicator) restore(ctx actor.Context, m *messages.LogSnapshotReceived) {
	r.applying.batch, r.applying.next = nil, nil
	s := &r.applying.snapshot
	s.part = m
	if m.Part == 1 {
		s.running, s.files, s.config = decodeRunning(m.State), map[string]bool{}, journal.Contents{}
		r.config.Env.Log().Info("this node lacks entries that the log does not have any longer; it copies a snapshot from another node")
	}
	var files []*messages.FileWrite
	for _, f := range m.Files {
		s.files[f.Path] = true
		if replication.IsConfig(f.Path) {
			replication.TakeConfigFile(&s.config, f) // configstore writes it, after the last part
		} else {
			// The log syncs all before it records that the snapshot is restored.
			unsynced := !r.config.Self.NeedsSync("", f.Path, f.Content)
			files = append(files, &messages.FileWrite{Op: f.Op, Path: f.Path, Content: f.Content, Unsynced: unsynced})
		}
	}
	r.store.Write(ctx, &messages.WriteFiles{Files: files, Durable: true}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
		switch {
		case s.part != m: // a new snapshot has begun
		case len(done.Failures) > 0:
			r.retryRestore(ctx, m, done.Failures[0].Failure)
		// Only with the last part it is known which files the snapshot has. Before it nothing may be removed.
		case m.Last:
			r.removeExtraFiles(ctx, m)
		default:
			r.config.Log.Restored(m.Part)
		}
	})
}

func (r *replicator) retryRestore(ctx actor.Context, m *messages.LogSnapshotReceived, f *messages.Failure) {
	r.applying.failure = f
	r.config.Env.Log().WithField("err", f.Text).Error("a snapshot cannot be written to this node's disk; the write is repeated")
	r.retryAfter(ctx, kit.Backoff(10), func(ctx actor.Context) {
		if r.applying.snapshot.part == m {
			r.restore(ctx, m)
		}
	})
}

// listPresent passes the paths of the files in these directories to then, unless another snapshot begins.
func (r *replicator) listPresent(ctx actor.Context, m *messages.LogSnapshotReceived, dirs []string, then func(actor.Context, []string)) {
	if len(dirs) == 0 {
		then(ctx, nil)
		return
	}
	r.store.List(ctx, "restore", dirs[0], func(ctx actor.Context, d *messages.ListDirResult) {
		if r.applying.snapshot.part != m {
			return
		}
		if d.Failure != nil {
			r.retryRestore(ctx, m, d.Failure)
			return
		}
		r.listPresent(ctx, m, dirs[1:], func(ctx actor.Context, present []string) {
			for _, name := range d.Names {
				present = append(present, dirs[0]+"/"+name)
			}
			then(ctx, present)
		})
	})
}

// removeExtraFiles removes the live jobs, settings, schedules and audit files that the snapshot lacks. Archived
// jobs are in no snapshot, and stay.
func (r *replicator) removeExtraFiles(ctx actor.Context, m *messages.LogSnapshotReceived) {
	s := &r.applying.snapshot
	r.listPresent(ctx, m, []string{paths.QueueDir, paths.AuditDir, paths.ScheduleDir}, func(ctx actor.Context, present []string) {
		extra := replication.AbsentFiles(present, s.files)
		r.store.Remove(ctx, &messages.RemoveFiles{Op: "restore", Paths: extra}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
			if s.part != m {
				return
			}
			if len(done.Failures) > 0 {
				r.retryRestore(ctx, m, done.Failures[0].Failure)
				return
			}
			r.restoreConfig(ctx, m, func(ctx actor.Context) {
				// All files are on the disk. Memory follows, and then the log hears of it: after a crash before that, it gives this node the whole
				// snapshot again.
				r.replica.restore(m.Index, s.running)
				r.applying = applying{}
				r.config.Env.Log().Info("snapshot received from the master is written to this node's disk")
				r.config.Log.Restored(m.Part)
			})
		})
	})
}
