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

// QueueNotEmptyError says that a node that is to join has jobs in its own queue.
type QueueNotEmptyError struct {
	Directory string
	File      string // one of its jobs
}

func (e *QueueNotEmptyError) Error() string {
	return fmt.Sprintf(`this node has jobs of its own (%s), and would take over the cluster's queue in place of them;
--discard-queue moves %s aside, and its jobs will not run`, e.File, e.Directory)
}

// requireNoJobs returns a *QueueNotEmptyError if the queue holds a job, live or archived. Other
// files of the queue may be lost.
func requireNoJobs(dataDir string) error {
	directory := filepath.Join(dataDir, paths.QueueDir)
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path == filepath.Join(dataDir, paths.QuarantineDir) {
			return filepath.SkipDir
		}
		if _, ok := paths.ParseJobName(entry.Name()); ok && !entry.IsDir() {
			return &QueueNotEmptyError{Directory: directory, File: path}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// formerQueueTime is the format of the time in the name of a queue that was moved aside.
const formerQueueTime = "20060102T150405Z"

// moveQueueAside replaces the queue by an empty directory, atomically, and keeps the old one as
// queue.before-join-<time>. The caller holds the queue's lock, whose file is linked into the new
// directory: no daemon can start in between.
func moveQueueAside(dataDir string, now time.Time) error {
	queue := filepath.Join(dataDir, paths.QueueDir)
	backup := queue + ".before-join-" + now.UTC().Format(formerQueueTime)
	info, err := os.Stat(queue)
	if err != nil {
		return err
	}
	if err := os.Mkdir(backup, info.Mode().Perm()); err != nil {
		return err
	}
	lock := strings.TrimPrefix(paths.LockPath, paths.QueueDir+"/")
	// The new directory has the lock before it becomes the queue, so that no daemon finds an unlocked one there.
	err = os.Link(filepath.Join(queue, lock), filepath.Join(backup, lock))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, os.Remove(backup))
	}
	if err := unix.Renameat2(unix.AT_FDCWD, backup, unix.AT_FDCWD, queue, unix.RENAME_EXCHANGE); err != nil {
		return errors.Join(fmt.Errorf("move %s to %s: %w; stop the daemon, move it yourself, and try again", queue, backup, err),
			os.Remove(filepath.Join(backup, lock)), os.Remove(backup))
	}
	// The exchange has happened: backup is the old queue.
	if err := os.Remove(filepath.Join(backup, lock)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return persistence.SyncDirectory(dataDir)
}

// moveAside keeps what belongs to the node's own queue as <dir>.before-join-<time>: the output of its jobs (--keep-output), because jobs of
// the cluster have the same ids, and the audit log, in whose place the node gets the cluster's. It comes before moveQueueAside. If the node
// dies in between, its queue is as it was, and only these directories must be moved back.
func moveAside(dataDir, dir string, now time.Time) error {
	former := filepath.Join(dataDir, dir)
	err := os.Rename(former, former+".before-join-"+now.UTC().Format(formerQueueTime))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return persistence.SyncDirectory(dataDir)
}
