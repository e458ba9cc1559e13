package locks

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// foldAt is the length in bytes from which the journal is folded. A journal may also be
// twice as long as the locks.data that it was last folded into, so that folding adds a
// constant cost to a change.
const foldAt = 1 << 20

// journal is what must still be written to the disk.
//
// Invariant: a notification leaves after the write of all changes that came before it.
type journal struct {
	records  []byte         // changes that no write has taken yet
	queued   []notification // due when records are written
	writing  bool
	inFlight []notification // due when the write under way is done
	length   int            // bytes in the file since it was folded
	folded   int            // bytes of locks.data
}

// notification is something to tell after a write. A failure means that the change has not
// happened.
type notification func(ctx actor.Context, f *messages.Failure)

// changed records a change of the state, and tells owners of their grants once it is
// written.
func (l *locks) changed(ctx actor.Context, a lock.CallResult) {
	for _, o := range a.Changed {
		l.journal.records = lock.AppendRecord(l.journal.records, l.state.Record(o))
		l.owners.update(o, l.state.HasOwner(o), l.config.Owners)
	}
	l.configLocks.update(ctx, l.state.Allocation(), a.Changed)
	if len(a.Changed) > 0 {
		l.publishLocks(ctx, a.Changed, false)
	}
	granted := make(map[lock.Owner]bool, len(a.Notify))
	for _, o := range a.Notify {
		granted[o] = true
		l.notifyGranted(ctx, o)
	}
	for _, o := range a.Changed {
		if !granted[o] && l.waiters[o] != nil && !l.state.HasPending(o) {
			l.notifyWithdrawn(ctx, o)
		}
	}
}

// notifyWhenWritten sends d when all changes so far are written.
func (l *locks) notifyWhenWritten(ctx actor.Context, d notification) {
	switch {
	case len(l.journal.records) > 0:
		l.journal.queued = append(l.journal.queued, d)
	case l.journal.writing:
		l.journal.inFlight = append(l.journal.inFlight, d)
	default:
		d(ctx, nil)
	}
}

// flush writes the changes that have collected since the last write began.
func (l *locks) flush(ctx actor.Context) {
	j := &l.journal
	if j.writing || len(j.records) == 0 {
		return
	}
	content := j.records
	j.length += len(content)
	j.inFlight, j.queued = j.queued, nil
	j.records, j.writing = nil, true
	var snapshot []byte // of the state that the journal then describes, if the journal becomes too long
	if j.length > foldAt && j.length > 2*j.folded {
		snapshot = lock.Encode(l.state.Snapshot())
	}
	l.store.Append(ctx, &messages.AppendFile{Op: "locks", Path: paths.LocksJournalPath, Content: content},
		func(ctx actor.Context, done *messages.ChangeFilesResult) {
			l.written(ctx, done)
			if snapshot != nil && l.state != nil {
				l.fold(ctx, snapshot)
			}
			l.flush(ctx)
		})
}

// written sends the notifications of a write. After a failed write the content of the disk
// is unknown, and memory must not be ahead of it: the files are read again, and all unsent
// notifications get the failure.
func (l *locks) written(ctx actor.Context, done *messages.ChangeFilesResult) {
	j := &l.journal
	j.writing = false
	notifications := j.inFlight
	j.inFlight = nil
	if len(done.GetFailures()) == 0 {
		for _, d := range notifications {
			d(ctx, nil)
		}
		return
	}
	f := cannotWrite(done.Failures[0].Failure)
	notifications = append(notifications, j.queued...)
	*j = journal{}
	l.state = nil
	l.fail(ctx, f)
	for _, d := range notifications {
		d(ctx, f)
	}
	for _, o := range slices.SortedFunc(maps.Keys(l.waiters), lock.Owner.Compare) {
		l.takeWaiter(o).call.answer(ctx, nil, f)
	}
}

// cannotWrite is a LockError, after which job processes ask again.
func cannotWrite(f *messages.Failure) *messages.Failure {
	return messages.LockFailure("The state of the locks cannot be written, so nothing was changed: " + f.Text)
}

// fail refuses all calls until the files can be read and written.
func (l *locks) fail(ctx actor.Context, f *messages.Failure) {
	l.unavailable = f
	delay := kit.Backoff(l.tries)
	l.tries++
	l.config.Env.Log().WithFields(logrus.Fields{"err": f.Text, "delay": delay}).Error(
		"lock files cannot be read or written; granting no locks until they can")
	kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryRecover{l.incarnation})
	for _, h := range l.deferred {
		l.refuse(ctx, h, f)
	}
	l.deferred = nil
	for _, p := range l.deferredCalls {
		p.stop()
		p.call.answer(ctx, nil, f)
	}
	l.deferredCalls = nil
}

// fold writes locks.data and then empties the journal. A crash in between is harmless,
// because the journal may be replayed over the folded file. The snapshot is exactly what
// the files say together; later changes wait.
func (l *locks) fold(ctx actor.Context, snapshot []byte) {
	l.journal.writing = true
	data := &messages.FileWrite{Op: "locks", Path: paths.LocksPath, Content: snapshot}
	l.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{data}}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
		if len(done.Failures) > 0 {
			l.written(ctx, done)
			return
		}
		empty := &messages.FileWrite{Op: "locks", Path: paths.LocksJournalPath, Content: lock.JournalHeader(l.config.Boot)}
		l.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{empty}}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
			l.journal.length, l.journal.folded = 0, len(snapshot)
			l.written(ctx, done)
			l.flush(ctx)
		})
	})
}

// publishLocks sends the records of owners to the scheduler and the subscribers, before the
// change is written. all: there are no other owners.
func (l *locks) publishLocks(ctx actor.Context, owners []lock.Owner, all bool) {
	records := make([]lock.Record, len(owners))
	for i, o := range owners {
		records[i] = l.state.Record(o)
	}
	changed := &Published{Records: records, Complete: all, Incarnation: uint64(l.incarnation)}
	ctx.Send(l.config.Scheduler, changed)
	if all {
		return // subscribers get all changes, or LocksStarted
	}
	for _, pid := range l.config.Subscribers {
		ctx.Send(pid, changed)
	}
}
