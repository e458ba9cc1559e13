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
	l.store.Read(ctx, "locks", paths.LocksPath, func(ctx actor.Context, data *messages.FileRead) {
		if data.Failure != nil {
			l.fail(ctx, cannotRead(data.Failure))
			return
		}
		l.store.Read(ctx, "locks", paths.LocksJournalPath, func(ctx actor.Context, journal *messages.FileRead) {
			if journal.Failure != nil {
				l.fail(ctx, cannotRead(journal.Failure))
				return
			}
			l.restore(ctx, data, journal)
		})
	})
}

func cannotRead(f *messages.Failure) *messages.Failure {
	return &messages.Failure{Class: "LockError", Text: "The state of the locks cannot be read: " + f.Text}
}

func (l *locks) restore(ctx actor.Context, data, journal *messages.FileRead) {
	now := l.config.Env.Clock().Now()
	snapshot, err := l.decode(data, journal)
	var state *lock.State
	var restored lock.RestoreResult
	if err == nil {
		state, restored, err = lock.Restore(l.config.Settings, now, snapshot)
	}
	if err != nil {
		l.setAside(ctx, err, data, journal)
		return
	}
	l.resume(ctx, state, restored)
}

// decode is what the two files say together.
func (l *locks) decode(data, journal *messages.FileRead) (lock.Snapshot, error) {
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

// setAside moves files that make no sense out of the way and goes on without
// them: who held a lock does not know that it is lost, so it must be said.
//
// locks.data goes first: a journal alone tells too little, but locks.data alone
// what has not been so for long.
func (l *locks) setAside(ctx actor.Context, why error, data, journal *messages.FileRead) {
	var files []string
	if !data.Missing {
		files = append(files, paths.LocksPath)
	}
	if !journal.Missing {
		files = append(files, paths.LocksJournalPath)
	}
	l.quarantine(ctx, why, files)
}

// quarantine moves files one after the other. One that cannot be moved would be
// written over: everything is tried again instead.
func (l *locks) quarantine(ctx actor.Context, why error, paths []string) {
	if len(paths) == 0 {
		l.resume(ctx, lock.New(l.config.Settings), lock.RestoreResult{})
		return
	}
	l.store.Quarantine(ctx, paths[0], func(ctx actor.Context, m *messages.Quarantined) {
		if m.Failure != nil {
			l.fail(ctx, cannotRead(m.Failure))
			return
		}
		l.quarantined = append(l.quarantined, m.Path)
		l.config.Env.Log().WithFields(logrus.Fields{"why": why.Error(), "path": m.Path}).Error(
			"a file of the locks was moved to the quarantine; no lock is held now, whatever running jobs believe")
		l.quarantine(ctx, why, paths[1:])
	})
}

// resume takes calls again, once the files hold nothing but what is in force.
func (l *locks) resume(ctx actor.Context, state *lock.State, restored lock.RestoreResult) {
	l.state = state
	l.owners.reset() // a former state may have had others
	for _, o := range l.state.Owners() {
		l.owners.note(o, true, l.config.Owners)
	}
	l.journal = journal{}
	l.journal.flight = []delivery{func(ctx actor.Context, f *messages.Failure) {
		if f == nil {
			l.resumed(ctx, restored)
		}
	}}
	l.fold(ctx, lock.Encode(l.state.Snapshot()))
}

func (l *locks) resumed(ctx actor.Context, restored lock.RestoreResult) {
	l.broken, l.tries = nil, 0
	for _, o := range restored.Granted {
		l.wake(ctx, o)
	}
	for _, o := range restored.Dropped {
		l.config.Env.Log().WithField("owner", o.String()).Error("what an owner waited for cannot be had any more; it waits in vain")
	}
	l.config.Env.Log().WithFields(logrus.Fields{"owners": l.owners.len()}).Info("lock manager is ready")
	for _, pid := range l.config.Clients {
		ctx.Send(pid, &messages.LocksStarted{Epoch: uint64(l.incarnation)})
	}
	l.tellScheduler(ctx, l.state.Owners(), true)
	// Whoever died while nobody could note it is found now.
	l.probe(ctx, 0, nil)
	waiting := l.held
	l.held = nil
	for _, h := range waiting {
		l.handle(ctx, h.message, h.sender)
	}
}
