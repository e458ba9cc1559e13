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
	ganeti, free part
	queued       []notification // due when records are written
	writing      bool
	inFlight     []notification // due when the write under way is done
}

// part is one pair of files: locks.data and its journal, or those of the free locks. A change
// that concerns both is written to Ganeti's part first. So after a crash between the two an
// owner may have Ganeti's locks of a request without the free ones, which come last in the
// order of locks, and can repeat the request.
type part struct {
	records []byte                  // changes that no write has taken yet
	owners  map[lock.Owner]struct{} // owners that hold or want something according to the records
	length  int                     // bytes in the file since it was folded
	folded  int                     // bytes of the other file
}

// add appends the record of an owner, unless the file says already that there is nothing.
func (p *part) add(r lock.Record) {
	if _, known := p.owners[r.Owner]; r.Empty() && !known {
		return
	}
	p.records = lock.AppendRecord(p.records, r)
	p.know(r)
}

// know follows what a record says of its owner: an owner without locks and requests is forgotten.
func (p *part) know(r lock.Record) {
	if r.Empty() {
		delete(p.owners, r.Owner)
		return
	}
	if p.owners == nil {
		p.owners = map[lock.Owner]struct{}{}
	}
	p.owners[r.Owner] = struct{}{}
}

// knowAll takes the owners of a snapshot.
func (p *part) knowAll(s lock.Snapshot) {
	for _, h := range s.Holdings {
		p.know(lock.Record{Owner: h.Owner, Locks: h.Locks})
	}
	for _, r := range s.Pending {
		p.know(lock.Record{Owner: r.Owner, Pending: &r})
	}
}

// take returns the records for a write, and forgets them. They count in the length of the journal.
func (p *part) take() []byte {
	content := p.records
	p.length += len(content)
	p.records = nil
	return content
}

func (j *journal) hasRecords() bool { return len(j.ganeti.records)+len(j.free.records) > 0 }

func (j *journal) length() int { return j.ganeti.length + j.free.length }

// add appends the record of an owner to the two journals, of Ganeti's locks and of free locks.
func (j *journal) add(r lock.Record) {
	ganeti, free := r.Split()
	j.ganeti.add(ganeti)
	j.free.add(free)
}

// notification is something to tell after a write. A failure means that the change has not
// happened.
type notification func(ctx actor.Context, f *messages.Failure)

// updated is changed for an operation without a result.
func (l *locks) updated(ctx actor.Context, u lock.Update) {
	l.changed(ctx, lock.CallResult{Changed: u.Changed, Notify: u.Notify})
}

// changed records a change of the state, and tells others of it: the scheduler and subscribers at once, the owners of grants and of
// withdrawn requests once it is written.
func (l *locks) changed(ctx actor.Context, a lock.CallResult) {
	// In the order of Changed: if a crash cuts the write off, no prefix of the records gives a lock to two owners.
	for _, o := range a.Changed {
		l.journal.add(l.state.Record(o))
		l.owners.update(o, l.state.HasOwner(o), l.config.Owners)
	}
	// Sent before any client can hear of the change, whose answer waits for the write: a client that has the configuration lock finds it
	// known there.
	l.configLocks.update(ctx, l.state.Allocation(), a.Changed)
	if len(a.Changed) > 0 {
		l.publishLocks(ctx, a.Changed, false)
	}
	granted := make(map[lock.Owner]bool, len(a.Notify))
	for _, o := range a.Notify {
		granted[o] = true
		// After journal.add, so that the grant is told when its record is written. A grant that a crash takes back could go to another owner.
		l.notifyGranted(ctx, o)
	}
	for _, o := range a.Changed {
		if !granted[o] && l.waiters[o] != nil && !l.state.HasPending(o) && !l.state.Choosing(o) {
			l.notifyWithdrawn(ctx, o)
		}
	}
}

// notifyWhenWritten calls d when all changes so far are written, with the failure if they cannot be; at once if none is open.
func (l *locks) notifyWhenWritten(ctx actor.Context, d notification) {
	switch {
	case l.journal.hasRecords():
		l.journal.queued = append(l.journal.queued, d)
	case l.journal.writing:
		l.journal.inFlight = append(l.journal.inFlight, d)
	default:
		d(ctx, nil)
	}
}

// flush writes the changes that have collected since the last write began, unless a write is under way. It folds the journals if they
// have become too long.
func (l *locks) flush(ctx actor.Context) {
	j := &l.journal
	if j.writing || !j.hasRecords() {
		return
	}
	ganeti, free := j.ganeti.take(), j.free.take()
	// These notifications are due with these records. What comes during the write belongs to the next one.
	j.inFlight, j.queued = j.queued, nil
	j.writing = true
	var snapshot *lock.Snapshot // of the state that the journals then describe, if they become too long
	if j.length() > foldAt && j.length() > 2*(j.ganeti.folded+j.free.folded) {
		s := l.state.Snapshot()
		snapshot = &s
	}
	// Ganeti's locks are written before the free ones, which are the last in the order of locks: a crash in between leaves the owner a
	// request that it can repeat.
	l.append(ctx, paths.LocksJournalPath, ganeti, func(ctx actor.Context) {
		l.appendFree(ctx, free, func(ctx actor.Context) {
			// Owners hear of their grants before a fold, for which they need not wait.
			l.written(ctx, nil)
			if snapshot != nil && l.state != nil {
				l.fold(ctx, *snapshot)
			}
			l.flush(ctx)
		})
	})
}

// appendFree is append for the journal of the free locks, which it makes first if there is none.
func (l *locks) appendFree(ctx actor.Context, records []byte, next func(actor.Context)) {
	if l.hasFreeFiles || len(records) == 0 {
		l.append(ctx, paths.FreeLocksJournalPath, records, next)
		return
	}
	l.replace(ctx, paths.FreeLocksJournalPath, lock.JournalHeader(l.config.Boot), func(ctx actor.Context) {
		l.hasFreeFiles = true
		l.append(ctx, paths.FreeLocksJournalPath, records, next)
	})
}

// append adds records to a journal, unless there are none. A failure ends the write.
func (l *locks) append(ctx actor.Context, path string, records []byte, next func(actor.Context)) {
	if len(records) == 0 {
		next(ctx)
		return
	}
	l.store.Append(ctx, &messages.AppendFile{Op: "locks", Path: path, Content: records}, l.orFail(next))
}

// replace writes a whole file and then calls next. A failure ends the write, which fails.
func (l *locks) replace(ctx actor.Context, path string, content []byte, next func(actor.Context)) {
	files := []*messages.FileWrite{{Op: "locks", Path: path, Content: content}}
	l.store.Write(ctx, &messages.WriteFiles{Files: files}, l.orFail(next))
}

// orFail calls the next step after a successful change of files, and ends the write after a failed one.
func (l *locks) orFail(next func(actor.Context)) func(actor.Context, *messages.ChangeFilesResult) {
	return func(ctx actor.Context, done *messages.ChangeFilesResult) {
		if len(done.GetFailures()) > 0 {
			l.written(ctx, done.Failures[0].Failure)
			return
		}
		next(ctx)
	}
}

// written sends the notifications of a write. After a failed write the content of the disk
// is unknown, and memory must not be ahead of it: the files are read again, and all unsent
// notifications get the failure.
func (l *locks) written(ctx actor.Context, failed *messages.Failure) {
	j := &l.journal
	j.writing = false
	notifications := j.inFlight
	j.inFlight = nil
	if failed == nil {
		for _, d := range notifications {
			d(ctx, nil)
		}
		return
	}
	f := cannotWrite(failed)
	// Memory is given up before the failures are told: it has changes that the disk may lack, and no further call may see them.
	notifications = append(notifications, j.queued...)
	*j = journal{}
	l.state = nil
	l.fail(ctx, f)
	for _, d := range notifications {
		d(ctx, f)
	}
	for _, o := range slices.SortedFunc(maps.Keys(l.waiters), lock.Owner.Compare) {
		l.takeWaiter(o).requester.answer(ctx, nil, f)
	}
}

// cannotWrite is a LockError, after which job processes ask again.
func cannotWrite(f *messages.Failure) *messages.Failure {
	return messages.LockFailure("The state of the locks cannot be written, so nothing was changed: " + f.Text)
}

// fail refuses all calls until the files can be read and written, which is tried again later. Calls that wait are answered with f.
func (l *locks) fail(ctx actor.Context, f *messages.Failure) {
	l.unavailable = f
	delay := kit.Backoff(l.tries)
	l.tries++
	l.config.Env.Log().WithFields(logrus.Fields{"err": f.Text, "delay": delay}).Error(
		"lock files cannot be read or written; granting no locks until they can")
	kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryRecover{l.incarnation})
	l.deferred.HandleAll(ctx, l.refuse)
	for _, p := range l.deferredCalls {
		p.stop()
		p.requester.answer(ctx, nil, f)
	}
	l.deferredCalls = nil
}

// fold writes locks.data and then empties the journal; then the same for the free locks, if
// they have files. A crash in between is harmless, because a journal may be replayed over the
// folded file. The snapshot is exactly what the files say together; later changes wait.
func (l *locks) fold(ctx actor.Context, snapshot lock.Snapshot) {
	l.journal.writing = true
	ganeti, free := snapshot.Split()
	l.foldPart(ctx, paths.LocksPath, paths.LocksJournalPath, &l.journal.ganeti, lock.Encode(ganeti), func(ctx actor.Context) {
		done := func(ctx actor.Context) {
			l.written(ctx, nil)
			l.flush(ctx)
		}
		if l.hasFreeFiles = l.hasFreeFiles || len(free.Holdings)+len(free.Pending) > 0; !l.hasFreeFiles {
			done(ctx)
			return
		}
		l.foldPart(ctx, paths.FreeLocksPath, paths.FreeLocksJournalPath, &l.journal.free, lock.Encode(free), done)
	})
}

// foldPart writes a file and then empties its journal.
func (l *locks) foldPart(ctx actor.Context, path, journal string, p *part, content []byte, next func(actor.Context)) {
	l.replace(ctx, path, content, func(ctx actor.Context) {
		// Only when the folded file has the records. In the other order a crash between the two would lose them.
		l.replace(ctx, journal, lock.JournalHeader(l.config.Boot), func(ctx actor.Context) {
			p.length, p.folded = 0, len(content)
			next(ctx)
		})
	})
}

// publishLocks sends the records of owners to the scheduler and the subscribers, before the
// change is written. all: there are no other owners.
func (l *locks) publishLocks(ctx actor.Context, owners []lock.Owner, all bool) {
	changed := l.published(owners, all)
	l.publishToScheduler(ctx, changed)
	if all {
		return // subscribers get all changes, or LocksStarted
	}
	kit.Publish(ctx, l.config.Subscribers, changed)
}

func (l *locks) publishToScheduler(ctx actor.Context, m *OwnersPublished) {
	if l.config.Scheduler != nil {
		ctx.Send(l.config.Scheduler, m)
	}
}

func (l *locks) published(owners []lock.Owner, all bool) *OwnersPublished {
	m := &OwnersPublished{Records: make([]lock.Record, len(owners)), Complete: all, Incarnation: uint64(l.incarnation)}
	for i, o := range owners {
		m.Records[i] = l.state.Record(o)
		if l.state.Withheld(o) {
			m.Withheld = append(m.Withheld, Withheld{o, l.paused[int64(o.Job)]})
		}
	}
	return m
}
