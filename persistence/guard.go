package persistence

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// FindLivelock says what a process finds of a livelock that CreateLivelock has made. held: its process lives, or that is not known.
// left: its process has died, and nothing has removed the file since. Neither: the process has released it, or there was none.
//
// The answer left is certain. The file has its name only while it is locked, so a free lock means that the process has ended or is
// releasing it; Release removes the file before it frees the lock. So a file that has a name after its lock was free is that of a dead
// process.
func FindLivelock(path string) (held, left bool) {
	// O_NONBLOCK: as in ProbeLivelock.
	fd, err := openFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, false
	}
	if err != nil {
		return true, false
	}
	defer func() { _ = unix.Close(fd) }()
	if setLock(fd, unix.F_RDLCK) != nil {
		return true, false
	}
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil {
		return true, false
	}
	return false, stat.Nlink > 0
}

// LeaseOverFor is for how long the lease of the node has been over, for a process beside the daemon. It is 0 while the lease is valid,
// without a lease, and for one that cannot be read or was never given.
func LeaseOverFor(runDir string) time.Duration {
	l, err := OpenLease(runDir)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(l.fd) }()
	until, known := l.until()
	if !known || until == 0 {
		return 0
	}
	return max(0, SinceBoot()-until)
}

// GuardLock is held while a guard runs for a run directory. It is flock(2) on the directory of livelocks, so that there is no file to
// remove.
type GuardLock struct{ dir dirLock }

// LockGuard takes the lock. The error says that another process has it, or wraps fs.ErrNotExist: there is no such directory yet.
func LockGuard(runDir string) (*GuardLock, error) {
	lock, err := lockDir(LivelockDir(runDir))
	if err != nil {
		return nil, fmt.Errorf("lock %s, as the guard does: %w", LivelockDir(runDir), err)
	}
	return &GuardLock{lock}, nil
}

// Holds reports whether the lock is that of the directory which the run directory has now.
func (l *GuardLock) Holds(runDir string) bool {
	var locked, named unix.Stat_t
	return l.dir.locked && unix.Fstat(l.dir.fd, &locked) == nil && unix.Stat(LivelockDir(runDir), &named) == nil &&
		locked.Dev == named.Dev && locked.Ino == named.Ino
}

// Release frees the lock.
func (l *GuardLock) Release() error { return l.dir.release() }

// IsGuarded reports whether a guard runs for a run directory. It does not wait.
func IsGuarded(runDir string) bool {
	fd, err := openFile(filepath.Clean(LivelockDir(runDir)), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }() // frees the lock that the probe has taken
	return errors.Is(retryInterrupted(func() error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) }), unix.EWOULDBLOCK)
}
