package persistence

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// liveHolderWaitMax is how long to wait for the lock of a directory whose holder lives. The
// holder may be about to release it, or be a program that cleans directories, such as
// systemd-tmpfiles.
const liveHolderWaitMax = time.Second

// dirLock is flock(2) on a directory. It needs no lock file, which an operator could remove. The
// zero value holds nothing.
type dirLock struct {
	fd     int
	locked bool
}

// dirLockedError says that another process holds the lock of a directory.
type dirLockedError struct{ pid int } // 0: unknown

func (e *dirLockedError) Error() string { return fmt.Sprintf("it is locked by process %d", e.pid) }

// lockDir takes the lock of a directory. It waits at most deadHolderWaitMax if the holder is dead
// or unknown, and liveHolderWaitMax if the holder lives; then the error is a [*dirLockedError].
// On a file system that cannot lock directories, such as NFS, it returns a lock that is not held,
// and no error.
func lockDir(dir string) (dirLock, error) {
	fd, err := openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return dirLock{}, err
	}
	started := time.Now()
	for {
		err := retryInterrupted(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		switch {
		case err == nil:
			return dirLock{fd, true}, nil
		case errors.Is(err, unix.EBADF),
			errors.Is(err, unix.EINVAL),
			errors.Is(err, unix.ENOLCK),
			errors.Is(err, unix.EOPNOTSUPP),
			errors.Is(err, unix.ENOSYS):
			return dirLock{}, unix.Close(fd)
		case !errors.Is(err, unix.EWOULDBLOCK):
			return dirLock{}, errors.Join(err, unix.Close(fd))
		}
		pid, waited := flockHolder(fd), time.Since(started)
		alive := pid != 0 && !isProcessDead(pid)
		if waited > deadHolderWaitMax || alive && waited > liveHolderWaitMax {
			return dirLock{}, errors.Join(&dirLockedError{pid}, unix.Close(fd))
		}
		time.Sleep(lockRetryInterval)
	}
}

func (l dirLock) release() error {
	if !l.locked {
		return nil
	}
	return unix.Close(l.fd)
}

// flockHolder returns the pid that the kernel reports as holder of the flock on a file; 0: it
// reports none, or several files have that inode number.
func flockHolder(fd int) (pid int) {
	var stat unix.Stat_t
	locks, err := os.Open("/proc/locks")
	if err != nil || unix.Fstat(fd, &stat) != nil {
		return 0
	}
	defer locks.Close()
	inode, found := ":"+strconv.FormatUint(stat.Ino, 10), 0
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// A line is: 1: FLOCK ADVISORY WRITE 4082 08:01:131077 0 EOF
		fields := strings.Fields(lines.Text())
		if len(fields) == 8 && fields[1] == "FLOCK" && strings.HasSuffix(fields[5], inode) {
			found++
			pid, _ = strconv.Atoi(fields[4]) // else 0
		}
	}
	if found != 1 {
		return 0
	}
	return max(pid, 0)
}

// RunLock is held while a daemon runs. A second daemon on the same run directory would replace
// the sockets and the lease of the first, even with another data directory.
type RunLock struct{ dir dirLock }

// RunLockedError says that another process uses the run directory.
type RunLockedError struct {
	Dir string
	PID int // 0 if unknown
}

func (e *RunLockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("directory %s is in use by %s: another daemon has its sockets and lock files there; "+
		"give this daemon another --run-dir or --socket-dir", e.Dir, holder)
}

// LockRun locks the run directory, which must exist. If another process has locked it, the error
// wraps a [*RunLockedError].
func LockRun(runDir string) (*RunLock, error) {
	dir, err := filepath.Abs(runDir)
	if err != nil {
		return nil, fmt.Errorf("lock the run directory: %w", err)
	}
	lock, err := lockDir(dir)
	if locked, ok := errors.AsType[*dirLockedError](err); ok {
		return nil, &RunLockedError{Dir: dir, PID: locked.pid}
	}
	if err != nil {
		return nil, fmt.Errorf("lock the run directory %s: %w", dir, err)
	}
	return &RunLock{lock}, nil
}

// Release unlocks the run directory. On nil it does nothing.
func (l *RunLock) Release() error {
	if l == nil {
		return nil
	}
	if err := l.dir.release(); err != nil {
		return fmt.Errorf("release the run directory: %w", err)
	}
	return nil
}

// DataLock is held by ganeti-wconfd as long as it runs, and by programs that complete its files while it does not run. The lock of the
// queue does not exclude them from each other, because ganeti-wconfd without ganeti-luxid does not have it.
type DataLock struct{ dir dirLock }

// DataLockedError says that another process uses the configuration and the locks of the data directory.
type DataLockedError struct {
	Dir string
	PID int // 0 if unknown
}

func (e *DataLockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("directory %s is in use by %s: ganeti-wconfd runs on its configuration", e.Dir, holder)
}

// LockData locks the data directory, which must exist. If another process has locked it, the error wraps a [*DataLockedError].
func LockData(dataDir string) (*DataLock, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	lock, err := lockDir(dir)
	if locked, ok := errors.AsType[*dirLockedError](err); ok {
		return nil, &DataLockedError{Dir: dir, PID: locked.pid}
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory %s: %w", dir, err)
	}
	return &DataLock{lock}, nil
}

// Release unlocks the data directory.
func (l *DataLock) Release() error {
	if err := l.dir.release(); err != nil {
		return fmt.Errorf("release the data directory: %w", err)
	}
	return nil
}
