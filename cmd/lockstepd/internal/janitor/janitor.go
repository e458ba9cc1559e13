// Package janitor has the work that a daemon does beside its actors, at intervals: the lock of the queue, lock files of dead processes,
// archived jobs that are old enough to be removed, and the kept output of jobs.
package janitor

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/edge/cgroup"
	"lockstep/persistence"
)

const (
	day = 24 * time.Hour
	// sweepInterval is the pause between sweeps of lock files. They catch processes that
	// were killed while no daemon ran.
	sweepInterval = time.Minute
	// lockCheckInterval is the pause between checks of queue/lock. Between two checks Ganeti's
	// daemon could start beside this one; a second lockstepd could not.
	lockCheckInterval = 2 * time.Second
	// archiveInterval is how long the wall clock must have run like the monotonic clock
	// before the janitor trusts it: after a boot it may be wrong by years until it is set.
	archiveInterval = time.Hour
	// removeBatch is how many archived jobs are removed at once, removePause the pause after them.
	removeBatch = 500
	removePause = time.Second
	// clockSlack is the largest step of a clock that is trusted.
	clockSlack = time.Minute
)

// WatchLock calls onLost, which stops the daemon in order, when the queue's lock file was removed
// or replaced. It returns when ctx ends.
func WatchLock(ctx context.Context, queue *persistence.QueueLock, onLost func(error)) {
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

// Run removes old archived jobs, lock files of dead processes and kept output until ctx ends. complete reports whether the archive has
// what it had before a power loss: until then no archived job is removed, and no output.
func Run(ctx context.Context, log *logrus.Logger, files *persistence.OSFiles, c settings.Config, complete func() bool) {
	sweep, archive := time.NewTicker(sweepInterval), time.NewTicker(archiveInterval)
	defer sweep.Stop()
	defer archive.Stop()
	go newOutputs(log, files, c.DataDir, complete).run(ctx)
	started := time.Now()
	clock := clockMonitor{wall: started.Round(0)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			SweepLivelocks(c.RunDir, log, files)
			sweepGroups(c)
		case <-archive.C:
			now := time.Now()
			if complete() && clock.isDue(now.Round(0), now.Sub(started)) {
				removeOldArchive(ctx, log, files, c, now)
			}
		}
	}
}

// clockMonitor decides when archived jobs may be removed: once a day, if the wall clock was not
// set since the last check. up is the time since the daemon's start on the monotonic clock.
type clockMonitor struct {
	wall      time.Time // at the last check
	up        time.Duration
	removed   bool
	removedAt time.Duration // up at the last removal
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

// removeOldArchive removes archived jobs that are old enough, in pieces with a pause, until ctx ends. Other writers only
// add files to the archive, so no actor is needed.
func removeOldArchive(ctx context.Context, log *logrus.Logger, files *persistence.OSFiles, c settings.Config, now time.Time) {
	age, err := archiveAge(files, c)
	if err != nil {
		log.WithField("err", err).Error("the settings are not known; no archived job is removed")
		return
	}
	for more := age > 0; more; {
		var removed int
		removed, more, err = persistence.RemoveArchived(c.DataDir, now, age, removeBatch)
		entry := log.WithField("files", removed)
		switch {
		case err != nil:
			entry.WithField("err", err).Error("removal of old archived jobs failed")
		case removed > 0:
			entry.Info("old archived jobs removed")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(removePause):
		}
	}
}

// archiveAge is the age from which archived jobs are removed: a setting, else --archive-days; 0 is never.
func archiveAge(files *persistence.OSFiles, c settings.Config) (time.Duration, error) {
	content, err := files.Read("sweep", paths.SettingsPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if content == nil {
		return c.RemoveArchivedAfter(), checkNoLostSettings(files)
	}
	stored, err := config.DecodeSettings(content)
	return stored.RemoveArchivedAfter(c.RemoveArchivedAfter()), err
}

// checkNoLostSettings returns an error if damaged settings were set aside, and a crash came before the file that replaces them. It is for
// a queue without settings.
func checkNoLostSettings(files *persistence.OSFiles) error {
	names, err := files.List("sweep", paths.QuarantineDir)
	if err != nil || slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, filepath.Base(paths.SettingsPath)) }) {
		return errors.Join(err, errors.New("settings that could not be read are in the quarantine"))
	}
	return nil
}

// sweepGroups removes the control groups of commands whose last process has ended after its job.
func sweepGroups(c settings.Config) {
	cgroup.RemoveEmpty(c.JobCgroup, func(livelock string) bool {
		held, err := persistence.ProbeLivelock(filepath.Join(persistence.LivelockDir(c.RunDir), livelock))
		return held || err != nil
	})
}

// SweepLivelocks removes the lock files of dead processes that are not needed.
func SweepLivelocks(runDir string, log *logrus.Logger, files *persistence.OSFiles) {
	_, err := persistence.SweepLivelocks(persistence.LivelockDir(runDir), func(name string) bool { return isLivelockNeeded(files, name) })
	if err != nil {
		log.WithField("err", err).Warn("removal of lock files of dead daemons and jobs failed")
	}
}

// isLivelockNeeded reports whether a job that has not ended names the lock file. The daemon
// that adopts the job finds its orphans by the file. Other lock files of dead processes belong
// to attempts that were never confirmed, or to jobs that have ended.
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
