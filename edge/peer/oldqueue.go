package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/paths"
	"lockstep/persistence"
)

// QueueError says that a node that is to join has a queue of its own.
type QueueError struct {
	Directory string
	File      string // one of its jobs
}

func (e *QueueError) Error() string {
	return fmt.Sprintf(`this node has jobs of its own (%s), and would take over the cluster's queue in place of them;
--discard-queue moves %s aside, and its jobs will not run`, e.File, e.Directory)
}

// mustHaveNoJobs returns a *QueueError if the queue holds a job, live or archived.
// Other files of a queue are worth nothing without jobs.
func mustHaveNoJobs(dataDir string) error {
	directory := filepath.Join(dataDir, paths.QueueDir)
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path == filepath.Join(dataDir, paths.QuarantineDir) {
			return filepath.SkipDir
		}
		if _, ok := paths.ParseJobName(entry.Name()); ok && !entry.IsDir() {
			return &QueueError{Directory: directory, File: path}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// oldQueueTime is how the name of a queue that was moved aside ends.
const oldQueueTime = "20060102T150405Z"

// moveQueueAside puts an empty directory in the place of the queue, in one step, and
// keeps the old one as queue.before-join-<time>. The queue's lock, which the caller
// holds, is in the new one: no daemon can start in between.
func moveQueueAside(dataDir string, now time.Time) error {
	queue := filepath.Join(dataDir, paths.QueueDir)
	aside := queue + ".before-join-" + now.UTC().Format(oldQueueTime)
	info, err := os.Stat(queue)
	if err != nil {
		return err
	}
	if err := os.Mkdir(aside, info.Mode().Perm()); err != nil {
		return err
	}
	lock := strings.TrimPrefix(paths.LockPath, paths.QueueDir+"/")
	err = os.Link(filepath.Join(queue, lock), filepath.Join(aside, lock))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, os.Remove(aside))
	}
	if err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, queue, unix.RENAME_EXCHANGE); err != nil {
		return errors.Join(fmt.Errorf("move %s to %s: %w; stop the daemon, move it yourself, and try again", queue, aside, err),
			os.Remove(filepath.Join(aside, lock)), os.Remove(aside))
	}
	// From here on, aside is the old queue.
	if err := os.Remove(filepath.Join(aside, lock)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return persistence.SyncDirectory(dataDir)
}
