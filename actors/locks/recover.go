package locks

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// lockFiles are the files, in the order in which they are read: each part's file and journal.
var lockFiles = []string{paths.LocksPath, paths.LocksJournalPath, paths.FreeLocksPath, paths.FreeLocksJournalPath}

// recover reads the files, folds them, and takes calls again.
func (l *locks) recover(ctx actor.Context) { l.readNext(ctx, nil) }

// readNext reads the lock files that follow those of read, and then restores the state. A failure is tried again later.
func (l *locks) readNext(ctx actor.Context, read []*messages.ReadFileResult) {
	if len(read) == len(lockFiles) {
		l.restore(ctx, read)
		return
	}
	l.store.Read(ctx, "locks", lockFiles[len(read)], func(ctx actor.Context, file *messages.ReadFileResult) {
		if file.Failure != nil {
			l.fail(ctx, cannotRead(file.Failure))
			return
		}
		l.readNext(ctx, append(read, file))
	})
}

func cannotRead(f *messages.Failure) *messages.Failure {
	return messages.LockFailure("The state of the locks cannot be read: " + f.Text)
}

// restore makes a state of the files. A part that cannot be parsed does not take the other one
// with it; parts that contradict each other or themselves do.
func (l *locks) restore(ctx actor.Context, files []*messages.ReadFileResult) {
	l.hasFreeFiles = !files[2].Missing || !files[3].Missing
	ganeti, err := l.decode(lockFiles[:2], files[:2])
	if err != nil {
		l.quarantineFiles(ctx, err, lockFiles[:2], files[:2])
		return
	}
	free, err := l.decode(lockFiles[2:], files[2:])
	if err != nil {
		l.quarantineFiles(ctx, err, lockFiles[2:], files[2:])
		return
	}
	state, restored, err := lock.Restore(l.config.Settings, l.config.Env.Clock().Now(), lock.Join(ganeti, free))
	if err != nil {
		l.quarantineFiles(ctx, err, lockFiles, files)
		return
	}
	l.resume(ctx, state, restored)
}

// decode returns the state of a file and its journal together. After a reboot it is empty. The error names the file that cannot be decoded,
// and is the reason for which restore moves the two files away.
func (l *locks) decode(paths []string, files []*messages.ReadFileResult) (lock.Snapshot, error) {
	var snapshot lock.Snapshot
	boot, changes, err := lock.CutJournalHeader(files[1].Content)
	if err != nil {
		return snapshot, fmt.Errorf("%s: %w", paths[1], err)
	}
	// The processes of another boot are dead, whatever the files say.
	if boot != "" && boot != l.config.Boot {
		l.config.Env.Log().WithField("path", paths[0]).Info("machine has rebooted; dropping all locks")
		return snapshot, nil
	}
	if !files[0].Missing {
		if snapshot, err = lock.Decode(files[0].Content); err != nil {
			return snapshot, fmt.Errorf("%s: %w", paths[0], err)
		}
	}
	replayed, err := lock.Replay(snapshot, changes)
	if err != nil {
		return snapshot, fmt.Errorf("%s: %w", paths[1], err)
	}
	return replayed.Snapshot, nil
}

// quarantineFiles moves unreadable files away and continues without them. This is logged,
// because owners do not know that they have lost their locks.
//
// locks.data goes before its journal: the journal alone is incomplete, and locks.data alone
// would restore an old state.
func (l *locks) quarantineFiles(ctx actor.Context, reason error, paths []string, files []*messages.ReadFileResult) {
	var found []string
	for i, path := range paths {
		if !files[i].Missing {
			found = append(found, path)
		}
	}
	l.quarantineNext(ctx, reason, found)
}

// quarantineNext moves the next file. If a file cannot be moved, recovery starts again,
// because the next write would replace the file.
func (l *locks) quarantineNext(ctx actor.Context, reason error, paths []string) {
	if len(paths) == 0 {
		l.recover(ctx) // with the files that are left
		return
	}
	l.store.Quarantine(ctx, paths[0], func(ctx actor.Context, m *messages.QuarantineFileResult) {
		if m.Failure != nil {
			l.fail(ctx, cannotRead(m.Failure))
			return
		}
		l.quarantined = append(l.quarantined, m.Path)
		l.config.Env.Log().WithFields(logrus.Fields{"err": reason.Error(), "path": m.Path}).Error(
			"unreadable lock file moved to the quarantine; its locks are lost, also those of running jobs")
		l.quarantineNext(ctx, reason, paths[1:])
	})
}

// resume puts a state in force and folds it. Calls are taken again once the files hold exactly this state.
func (l *locks) resume(ctx actor.Context, state *lock.State, restored lock.RestoreResult) {
	l.state = state
	l.owners.reset() // the former state may have had other owners
	for _, o := range l.state.Owners() {
		l.owners.update(o, true, l.config.Owners)
	}
	l.configLocks.forget()
	l.journal = journal{}
	// Calls wait for the fold: Restore may have granted or dropped requests, and a grant must not be told before it is on the disk.
	l.journal.inFlight = []notification{func(ctx actor.Context, f *messages.Failure) {
		if f == nil {
			l.resumed(ctx, restored)
		}
	}}
	snapshot := l.state.Snapshot()
	ganeti, free := snapshot.Split()
	l.journal.ganeti.knowAll(ganeti)
	l.journal.free.knowAll(free)
	l.fold(ctx, snapshot)
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
	// The whole state is told before the deferred messages change it. From then on others hear of changes only.
	kit.Publish(ctx, l.config.Clients, &messages.LocksStarted{Incarnation: uint64(l.incarnation)})
	l.configLocks.reset(ctx, l.state)
	l.publishLocks(ctx, l.state.Owners(), true)
	// Owners that died while there was no state are found now.
	l.probe(ctx, 0, nil)
	l.deferred.HandleAll(ctx, l.handle)
}
