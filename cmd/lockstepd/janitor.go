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
	// sweepPause is between two looks at the lock files: a backstop, for what
	// was killed while no daemon was watching.
	sweepPause = time.Minute
	// lockPause is between two looks at queue/lock. Until the next one, Ganeti's daemon
	// could start beside this one; a second lockstepd could not.
	lockPause = 2 * time.Second
	// archivePause is how long the wall clock must have gone like the machine's other
	// clock, which nobody sets, before it is believed: after a boot it may be wrong
	// by years until it is set.
	archivePause = time.Hour
	// clockSlack is what may be set of a clock that is believed.
	clockSlack = time.Minute
)

// watchLock calls lost when the queue's lock file was removed or replaced, which has
// the daemon stop in order. It ends with ctx.
func watchLock(ctx context.Context, queue *persistence.QueueLock, lost func(error)) {
	looks := time.NewTicker(lockPause)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		if err := queue.Lost(); err != nil {
			lost(err)
			return
		}
	}
}

// keepClean removes what nobody needs any more, as long as ctx lasts.
func keepClean(ctx context.Context, log *logrus.Logger, files *persistence.OSFiles, c Config) {
	sweep, archive := time.NewTicker(sweepPause), time.NewTicker(archivePause)
	defer sweep.Stop()
	defer archive.Stop()
	began := time.Now()
	watch := clockWatch{wall: began.Round(0)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			sweepLivelocks(c, log, files)
		case <-archive.C:
			now := time.Now()
			if watch.due(now.Round(0), now.Sub(began)) {
				removeOldArchive(log, c, now)
			}
		}
	}
}

// clockWatch says when archived jobs may be removed: once a day, if the wall clock
// has not been set since the last look. Up is the time since the daemon's start on a
// clock that is never set.
type clockWatch struct {
	wall    time.Time // at the last look
	up      time.Duration
	removed bool
	at      time.Duration // of the last removal
}

func (w *clockWatch) due(wall time.Time, up time.Duration) bool {
	set := wall.Sub(w.wall) - (up - w.up)
	w.wall, w.up = wall, up
	if set.Abs() > clockSlack || w.removed && up-w.at < day-archivePause/2 {
		return false
	}
	w.removed, w.at = true, up
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
	_, err := persistence.SweepLivelocks(persistence.LivelockDir(c.RunDir), func(name string) bool { return isNeeded(files, name) })
	if err != nil {
		log.WithField("err", err).Warn("lock files of former daemons and jobs cannot be removed")
	}
}

// isNeeded: the lock file of a dead process whose job has not ended says, to
// whoever adopts the job, that something of it may be left. One that no such job
// names was never confirmed, or has outlived its job's end.
func isNeeded(files *persistence.OSFiles, livelock string) bool {
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
