package locks

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// recover reads the files, folds them, and takes calls again.
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

// decode returns the state of both files together.
func (l *locks) decode(data, journal *messages.ReadFileResult) (lock.Snapshot, error) {
	var snapshot lock.Snapshot
	boot, changes, err := lock.CutJournalHeader(journal.Content)
	if err != nil {
		return snapshot, fmt.Errorf("%s: %w", paths.LocksJournalPath, err)
	}
	if boot != "" && boot != l.config.Boot {
		l.config.Env.Log().Info("machine has rebooted; dropping all locks")
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

// quarantineFiles moves unreadable files away and continues without them. This is logged,
// because owners do not know that they have lost their locks.
//
// locks.data goes first: the journal alone is incomplete, and locks.data alone would
// restore an old state.
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

// quarantineNext moves the next file. If a file cannot be moved, recovery starts again,
// because the next write would replace the file.
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
		l.config.Env.Log().WithFields(logrus.Fields{"err": reason.Error(), "path": m.Path}).Error(
			"unreadable lock file moved to the quarantine; all locks are lost, also those of running jobs")
		l.quarantineNext(ctx, reason, paths[1:])
	})
}

// resume takes calls again, once the files hold exactly the state in force.
func (l *locks) resume(ctx actor.Context, state *lock.State, restored lock.RestoreResult) {
	l.state = state
	l.owners.reset() // the former state may have had other owners
	for _, o := range l.state.Owners() {
		l.owners.update(o, true, l.config.Owners)
	}
	l.configLocks.forget()
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
		l.config.Env.Log().WithField("owner", o.String()).Error("pending lock request can no longer be granted; dropping it")
	}
	l.config.Env.Log().WithFields(logrus.Fields{"owners": l.owners.len()}).Info("lock manager is ready")
	for _, pid := range l.config.Clients {
		ctx.Send(pid, &messages.LocksStarted{Incarnation: uint64(l.incarnation)})
	}
	l.configLocks.reset(ctx, l.state)
	l.publishLocks(ctx, l.state.Owners(), true)
	// Owners that died while there was no state are found now.
	l.probe(ctx, 0, nil)
	waiting := l.deferred
	l.deferred = nil
	for _, h := range waiting {
		l.handle(ctx, h.message, h.sender)
	}
}
