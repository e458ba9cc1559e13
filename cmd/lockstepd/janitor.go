package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
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
	sweep, archive := time.NewTicker(sweepPause), time.NewTicker(day)
	defer sweep.Stop()
	defer archive.Stop()
	removeOldArchive(log, c)
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			sweepLivelocks(c, log, files)
		case <-archive.C:
			removeOldArchive(log, c)
		}
	}
}

// removeOldArchive removes archived jobs that are old enough. Nobody writes in
// the archive but to add files, so it needs no actor.
func removeOldArchive(log *logrus.Logger, c Config) {
	if c.ArchiveDays == 0 {
		return
	}
	removed, err := persistence.RemoveArchived(c.DataDir, time.Now().Add(-time.Duration(c.ArchiveDays)*day))
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
	id, ok := layout.JobOfLivelock(livelock)
	if !ok {
		return false
	}
	content, err := files.Read("sweep", layout.JobPath(id))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	j, err := job.Decode(content)
	return err != nil || !j.Status().Final() && filepath.Base(j.Livelock) == livelock
}
