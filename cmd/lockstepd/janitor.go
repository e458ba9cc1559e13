package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/persistence"
)

const (
	day = 24 * time.Hour
	// sweepInterval is between two looks at the lock files: a backstop, for what
	// was killed while no daemon was watching.
	sweepInterval = time.Minute
	// lockCheckInterval is between two looks at queue/lock. Until the next one, Ganeti's daemon
	// could start beside this one; a second lockstepd could not.
	lockCheckInterval = 2 * time.Second
	// archiveInterval is how long the wall clock must have gone like the machine's other
	// clock, which nobody sets, before it is believed: after a boot it may be wrong
	// by years until it is set.
	archiveInterval = time.Hour
	// clockSlack is what may be set of a clock that is believed.
	clockSlack = time.Minute
)

// watchLock calls lost when the queue's lock file was removed or replaced, which has
// the daemon stop in order. It ends with ctx.
func watchLock(ctx context.Context, queue *persistence.QueueLock, onLost func(error)) {
	ticks := time.NewTicker(lockCheckInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if err := queue.CheckHeld(); err != nil {
			onLost(err)
			return
		}
	}
}

// runJanitor removes what nobody needs any more, as long as ctx lasts.
func runJanitor(ctx context.Context, log *logrus.Logger, files *persistence.OSFiles, c Config) {
	sweep, archive := time.NewTicker(sweepInterval), time.NewTicker(archiveInterval)
	defer sweep.Stop()
	defer archive.Stop()
	started := time.Now()
	clock := clockMonitor{wall: started.Round(0)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			sweepLivelocks(c, log, files)
		case <-archive.C:
			now := time.Now()
			if clock.isDue(now.Round(0), now.Sub(started)) {
				removeOldArchive(log, c, now)
			}
		}
	}
}

// clockMonitor says when archived jobs may be removed: once a day, if the wall clock
// has not been set since the last look. Up is the time since the daemon's start on a
// clock that is never set.
type clockMonitor struct {
	wall      time.Time // at the last look
	up        time.Duration
	removed   bool
	removedAt time.Duration // of the last removal
}

func (w *clockMonitor) isDue(wall time.Time, up time.Duration) bool {
	drift := wall.Sub(w.wall) - (up - w.up)
	w.wall, w.up = wall, up
	if drift.Abs() > clockSlack || w.removed && up-w.removedAt < day-archiveInterval/2 {
		return false
	}
	w.removed, w.removedAt = true, up
	return true
}

// removeOldArchive removes archived jobs that are old enough. Nobody writes in
// the archive but to add files, so it needs no actor.
func removeOldArchive(log *logrus.Logger, c Config, now time.Time) {
	if c.ArchiveDays == 0 {
		return
	}
	removed, err := persistence.RemoveArchived(c.DataDir, now, time.Duration(c.ArchiveDays)*day)
	entry := log.WithField("files", removed)
	switch {
	case err != nil:
		entry.WithField("err", err).Error("old archived jobs cannot be removed")
	case removed > 0:
		entry.Info("old archived jobs were removed")
	}
}

// sweepLivelocks removes the lock files of dead processes that nobody needs.
func sweepLivelocks(c Config, log *logrus.Logger, files *persistence.OSFiles) {
	_, err := persistence.SweepLivelocks(persistence.LivelockDir(c.RunDir), func(name string) bool { return isLivelockNeeded(files, name) })
	if err != nil {
		log.WithField("err", err).Warn("lock files of former daemons and jobs cannot be removed")
	}
}

// isLivelockNeeded: the lock file of a dead process whose job has not ended says, to
// whoever adopts the job, that something of it may be left. One that no such job
// names was never confirmed, or has outlived its job's end.
func isLivelockNeeded(files *persistence.OSFiles, livelock string) bool {
	id, ok := paths.JobIDOfLivelock(livelock)
	if !ok {
		return false
	}
	content, err := files.Read("sweep", paths.JobPath(id))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	j, err := job.Decode(content)
	return err != nil || !j.Status().Final() && filepath.Base(j.Livelock) == livelock
}
