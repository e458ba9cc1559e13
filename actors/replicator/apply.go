package replicator

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// batch are entries on their way to this node's disk. There is one at a time: the log
// brings the next when it is there.
type batch struct {
	entries  []*messages.LogEntry
	index    uint64                  // of the last
	steps    []*messages.AccessStore // that are still to be done; nil: it is not known yet
	failures map[string]*messages.FileFailure
	tries    int
}

// attach takes what a former incarnation, or a former daemon, knew.
func (r *replicator) attach(m *messages.LogAttached) {
	if m.Incarnation != r.incarnation {
		return
	}
	running, err := replication.DecodeRunningJobs(m.State)
	if err != nil {
		panic(err)
	}
	r.attached, r.running, r.applied = true, running, m.Applied
}

// committed applies entries, in their order. It does not end before they are all on
// the disk: a node that left one out would not be a copy any more.
func (r *replicator) committed(ctx actor.Context, m *messages.LogCommitted) {
	b := &batch{failures: map[string]*messages.FileFailure{}}
	for _, c := range m.Entries {
		entry, err := messages.UnmarshalLogEntry(c.Entry)
		if err != nil {
			panic(fmt.Errorf("index %d: %w", c.Index, err)) // to go on without it would make this node differ
		}
		b.entries, b.index = append(b.entries, entry), c.Index
	}
	r.applying = b
	for _, e := range b.entries {
		if e.Origin == r.config.Self.Node && e.Incarnation == r.config.Self.Incarnation {
			r.logged(ctx, e.Number)
		}
	}
	r.readLocal(ctx, b)
}

// readLocal reads what the entries may not overwrite, and then applies them.
func (r *replicator) readLocal(ctx actor.Context, b *batch) {
	local := map[string][]byte{}
	toRead := r.config.Self.PathsToRead(b.entries)
	remaining, failure := len(toRead), (*messages.Failure)(nil)
	done := func(ctx actor.Context) {
		if failure != nil {
			r.retryDisk(ctx, b, failure, r.readLocal)
			return
		}
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

// applyNext does one step after the other: they may be about the same files.
func (r *replicator) applyNext(ctx actor.Context, b *batch) {
	if len(b.steps) == 0 {
		r.batchWritten(ctx, b)
		return
	}
	step := b.steps[0]
	done := func(ctx actor.Context, m *messages.ChangeFilesResult) { r.stepDone(ctx, b, m) }
	switch what := step.What.(type) {
	case *messages.AccessStore_Write:
		r.store.Write(ctx, what.Write, done)
	case *messages.AccessStore_Move:
		r.store.Move(ctx, what.Move, done)
	case *messages.AccessStore_Remove:
		r.store.Remove(ctx, what.Remove, done)
	}
}

// stepDone goes on, or tries what the disk has refused again. A file that is not
// there to be moved is no reason to stop: who asked for it is told.
func (r *replicator) stepDone(ctx actor.Context, b *batch, m *messages.ChangeFilesResult) {
	failed := map[string]bool{}
	var why *messages.Failure
	for _, f := range m.Failures {
		if f.Missing {
			b.failures[f.Path] = f
			continue
		}
		failed[f.Path], why = true, f.Failure
	}
	if why != nil {
		b.steps[0] = replication.Remaining(b.steps[0], failed)
		r.retryDisk(ctx, b, why, r.applyNext)
		return
	}
	b.steps = b.steps[1:]
	r.applyNext(ctx, b)
}

// batchWritten: all of the batch is.
func (r *replicator) batchWritten(ctx actor.Context, b *batch) {
	if r.failure != nil {
		r.config.Env.Log().Info("the disk takes again what the other nodes have")
		r.failure = nil
	}
	r.applying, r.applied = nil, b.index
	for _, e := range b.entries {
		r.running.Apply(e)
		r.updateContents(e)
	}
	r.config.Log.Applied(b.index, r.running.Encode())
	for _, e := range b.entries {
		if e.Origin == r.config.Self.Node && e.Incarnation == r.config.Self.Incarnation {
			r.finishProposal(ctx, e.Number, b.failures)
		}
	}
	r.forgetEndedJobs()
	r.retryDeferredReads(ctx)
}

// forgetEndedJobs drops what was observed of jobs that have ended without their processes.
func (r *replicator) forgetEndedJobs() {
	if len(r.jobFiles) <= len(r.running)+16 {
		return
	}
	for id, o := range r.jobFiles {
		if !r.isRunning(id) && !o.inFlight && len(o.waiting) == 0 {
			delete(r.jobFiles, id)
		}
	}
}

// updateContents keeps what the log has of jobs that run here. Their files on this disk are
// not what others may be sent: they are ahead of it, and a failover would undo that.
func (r *replicator) updateContents(e *messages.LogEntry) {
	for _, c := range e.Changes {
		for _, file := range replication.ChangedPaths(c) {
			if id, isJob := replication.JobIDOf(file); isJob {
				delete(r.contents, id)
				if r.running[id].Node == r.config.Self.Node {
					r.contents[id] = c.GetUpdate().GetContent()
				}
			}
		}
	}
}

func (r *replicator) committedFiles(ctx actor.Context) {
	answer := &messages.GetCommittedFilesResult{}
	for _, id := range r.running.StartedOn(r.config.Self.Node) {
		content, known := r.contents[id]
		if !known {
			answer.Failure = messages.Generic(fmt.Errorf("job %d runs here, and it is not known what the others have of it", id))
			break
		}
		answer.Files = append(answer.Files, &messages.FileWrite{Op: "freeze", Path: paths.JobPath(id), Content: content})
	}
	ctx.Respond(answer)
}

// retryDisk tries without end: what a majority has must come to be here. A master
// whose disk fails is of no use meanwhile, and lets another one be it.
func (r *replicator) retryDisk(ctx actor.Context, b *batch, why *messages.Failure, again func(actor.Context, *batch)) {
	delay := kit.Backoff(b.tries)
	r.config.Env.Log().WithFields(logrus.Fields{"err": why.Text, "delay": delay}).Error("what the other nodes have cannot be written here")
	r.failure = why
	b.tries++
	if r.leads {
		r.config.Log.Change(0, Change{What: messages.ChangeNodes_TRANSFER})
	}
	r.retryAfter(ctx, delay, func(ctx actor.Context) {
		if r.applying == b {
			again(ctx, b)
		}
	})
}

// restore puts a part of a snapshot on the disk. What the snapshot does not have is
// removed with the last part: this node was away when it was.
func (r *replicator) restore(ctx actor.Context, m *messages.LogSnapshotReceived) {
	r.applying, r.restoring = nil, m
	if m.Part == 1 {
		running, err := replication.DecodeRunningJobs(m.State)
		if err != nil {
			panic(err)
		}
		r.restored, r.files = running, map[string]bool{}
		r.config.Env.Log().Info("this node is new, or was away for long: it takes a copy of all that the others have")
	}
	for _, f := range m.Files {
		r.files[f.Path] = true
	}
	r.store.Write(ctx, &messages.WriteFiles{Files: m.Files, Durable: true}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
		switch {
		case r.restoring != m: // it has begun again
		case len(done.Failures) > 0:
			r.retryRestore(ctx, m, done.Failures[0].Failure)
		case m.Last:
			r.removeExtraFiles(ctx, m)
		default:
			r.config.Log.Restored(m.Part)
		}
	})
}

func (r *replicator) retryRestore(ctx actor.Context, m *messages.LogSnapshotReceived, f *messages.Failure) {
	r.failure = f
	r.config.Env.Log().WithField("err", f.Text).Error("what the other nodes have cannot be written here")
	r.retryAfter(ctx, kit.Backoff(10), func(ctx actor.Context) {
		if r.restoring == m {
			r.restore(ctx, m)
		}
	})
}

// removeExtraFiles removes what the snapshot does not have of live jobs and settings.
// Archived jobs are in no snapshot, and stay.
func (r *replicator) removeExtraFiles(ctx actor.Context, m *messages.LogSnapshotReceived) {
	r.store.List(ctx, "restore", paths.QueueDir, func(ctx actor.Context, d *messages.ListDirResult) {
		if r.restoring != m {
			return
		}
		if d.Failure != nil {
			r.retryRestore(ctx, m, d.Failure)
			return
		}
		paths := replication.AbsentFiles(d.Names, r.files)
		r.store.Remove(ctx, &messages.RemoveFiles{Op: "restore", Paths: paths}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
			if r.restoring != m {
				return
			}
			if len(done.Failures) > 0 {
				r.retryRestore(ctx, m, done.Failures[0].Failure)
				return
			}
			clear(r.contents)
			r.running, r.applied, r.restored, r.files, r.restoring, r.failure = r.restored, m.Index, nil, nil, nil, nil
			r.config.Env.Log().Info("this node has all that the others have")
			r.config.Log.Restored(m.Part)
		})
	})
}
