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

// foldAt is how long the journal may become before it is folded, in bytes;
// beyond that it may be twice as long as what it was last folded into, so that
// folding adds a constant to the cost of a change.
const foldAt = 1 << 20

// journal is what is on its way to the disk.
//
// Invariant: what is told to anybody is behind the write of all that had
// happened when it was decided.
type journal struct {
	records  []byte         // changes that no write has taken yet
	queued   []notification // due when these are written
	writing  bool
	inFlight []notification // due when what is being written is
	length   int            // of the file since it was folded
	folded   int            // length of locks.data
}

// notification tells somebody something; with a failure, that it has not happened.
type notification func(ctx actor.Context, f *messages.Failure)

// changed records a change of the state, and wakes those who have got something
// by it.
func (l *locks) changed(ctx actor.Context, a lock.CallResult) {
	for _, o := range a.Changed {
		l.journal.records = lock.AppendRecord(l.journal.records, l.state.Record(o))
		l.owners.update(o, l.state.HasOwner(o), l.config.Owners)
	}
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

// notifyWhenWritten tells as soon as what has been changed so far is written.
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

// flush writes the changes that have come together while the last were written.
func (l *locks) flush(ctx actor.Context) {
	j := &l.journal
	if j.writing || len(j.records) == 0 {
		return
	}
	content := j.records
	j.length += len(content)
	j.inFlight, j.queued = j.queued, nil
	j.records, j.writing = nil, true
	var snapshot []byte // of what the journal will say then, if that becomes long
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

// written delivers what waited for a write. After one that has failed nobody
// knows what is on the disk, and memory may not run ahead of it: the files are
// read again, and all that was to be told has not happened.
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

// cannotWrite is a LockError: job processes ask again, for it will pass.
func cannotWrite(f *messages.Failure) *messages.Failure {
	return messages.LockFailure("The state of the locks cannot be written, so nothing was changed: " + f.Text)
}

// fail refuses all calls until the files have been read and written.
func (l *locks) fail(ctx actor.Context, f *messages.Failure) {
	l.unavailable = f
	delay := kit.Backoff(l.tries)
	l.tries++
	l.config.Env.Log().WithFields(logrus.Fields{"err": f.Text, "again": delay}).Error(
		"the files of the locks cannot be used; no lock is given until they can")
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

// fold writes locks.data anew and empties the journal, in this order: a journal
// that has been folded already may be replayed. The snapshot says just what the
// files say together; later changes wait, however many they are.
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

// publishLocks tells what owners hold and want now, and subscribers too; all says
// that these are all.
func (l *locks) publishLocks(ctx actor.Context, owners []lock.Owner, all bool) {
	records := make([]lock.Record, len(owners))
	for i, o := range owners {
		records[i] = l.state.Record(o)
	}
	changed := &Published{Records: records, Complete: all, Incarnation: uint64(l.incarnation)}
	ctx.Send(l.config.Scheduler, changed)
	if all {
		return // subscribers have been told all changes, or that there is another lock manager
	}
	for _, pid := range l.config.Subscribers {
		ctx.Send(pid, changed)
	}
}
