package locks

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// recover reads the files, folds them, and goes on from there.
func (l *locks) recover(ctx actor.Context) {
	l.store.Read(ctx, "locks", paths.LocksPath, func(ctx actor.Context, data *messages.ReadFileResult) {
		if data.Failure != nil {
			l.fail(ctx, cannotRead(data.Failure))
			return
		}
		l.store.Read(ctx, "locks", paths.LocksJournalPath, func(ctx actor.Context, journal *messages.ReadFileResult) {
			if journal.Failure != nil {
				l.fail(ctx, cannotRead(journal.Failure))
				return
			}
			l.restore(ctx, data, journal)
		})
	})
}

func cannotRead(f *messages.Failure) *messages.Failure {
	return messages.LockFailure("The state of the locks cannot be read: " + f.Text)
}

func (l *locks) restore(ctx actor.Context, data, journal *messages.ReadFileResult) {
	now := l.config.Env.Clock().Now()
	snapshot, err := l.decode(data, journal)
	var state *lock.State
	var restored lock.RestoreResult
	if err == nil {
		state, restored, err = lock.Restore(l.config.Settings, now, snapshot)
	}
	if err != nil {
		l.quarantineFiles(ctx, err, data, journal)
		return
	}
	l.resume(ctx, state, restored)
}

// decode is what the two files say together.
func (l *locks) decode(data, journal *messages.ReadFileResult) (lock.Snapshot, error) {
	var snapshot lock.Snapshot
	boot, changes, err := lock.CutJournalHeader(journal.Content)
	if err != nil {
		return snapshot, fmt.Errorf("%s: %w", paths.LocksJournalPath, err)
	}
	if boot != "" && boot != l.config.Boot {
		l.config.Env.Log().Info("the machine has been started anew; nobody holds a lock")
		return snapshot, nil
	}
	if !data.Missing {
		if snapshot, err = lock.Decode(data.Content); err != nil {
			return snapshot, fmt.Errorf("%s: %w", paths.LocksPath, err)
		}
	}
	replayed, err := lock.Replay(snapshot, changes)
	if err != nil {
		return snapshot, fmt.Errorf("%s: %w", paths.LocksJournalPath, err)
	}
	return replayed.Snapshot, nil
}

// quarantineFiles moves files that make no sense out of the way and goes on without
// them: who held a lock does not know that it is lost, so it must be said.
//
// locks.data goes first: a journal alone tells too little, but locks.data alone
// what has not been so for long.
func (l *locks) quarantineFiles(ctx actor.Context, reason error, data, journal *messages.ReadFileResult) {
	var files []string
	if !data.Missing {
		files = append(files, paths.LocksPath)
	}
	if !journal.Missing {
		files = append(files, paths.LocksJournalPath)
	}
	l.quarantineNext(ctx, reason, files)
}

// quarantineNext moves files one after the other. One that cannot be moved would be
// written over: everything is tried again instead.
func (l *locks) quarantineNext(ctx actor.Context, reason error, paths []string) {
	if len(paths) == 0 {
		l.resume(ctx, lock.New(l.config.Settings), lock.RestoreResult{})
		return
	}
	l.store.Quarantine(ctx, paths[0], func(ctx actor.Context, m *messages.QuarantineFileResult) {
		if m.Failure != nil {
			l.fail(ctx, cannotRead(m.Failure))
			return
		}
		l.quarantined = append(l.quarantined, m.Path)
		l.config.Env.Log().WithFields(logrus.Fields{"why": reason.Error(), "path": m.Path}).Error(
			"a file of the locks was moved to the quarantine; no lock is held now, whatever running jobs believe")
		l.quarantineNext(ctx, reason, paths[1:])
	})
}

// resume takes calls again, once the files hold nothing but what is in force.
func (l *locks) resume(ctx actor.Context, state *lock.State, restored lock.RestoreResult) {
	l.state = state
	l.owners.reset() // a former state may have had others
	for _, o := range l.state.Owners() {
		l.owners.update(o, true, l.config.Owners)
	}
	l.journal = journal{}
	l.journal.inFlight = []notification{func(ctx actor.Context, f *messages.Failure) {
		if f == nil {
			l.resumed(ctx, restored)
		}
	}}
	l.fold(ctx, lock.Encode(l.state.Snapshot()))
}

func (l *locks) resumed(ctx actor.Context, restored lock.RestoreResult) {
	l.unavailable, l.tries = nil, 0
	for _, o := range restored.Granted {
		l.notifyGranted(ctx, o)
	}
	for _, o := range restored.Dropped {
		l.config.Env.Log().WithField("owner", o.String()).Error("what an owner waited for cannot be had any more; it waits in vain")
	}
	l.config.Env.Log().WithFields(logrus.Fields{"owners": l.owners.len()}).Info("lock manager is ready")
	for _, pid := range l.config.Clients {
		ctx.Send(pid, &messages.LocksStarted{Incarnation: uint64(l.incarnation)})
	}
	l.publishLocks(ctx, l.state.Owners(), true)
	// Whoever died while nobody could note it is found now.
	l.probe(ctx, 0, nil)
	waiting := l.deferred
	l.deferred = nil
	for _, h := range waiting {
		l.handle(ctx, h.message, h.sender)
	}
}
