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

// liveHolderWaitMax is how long the lock of a directory is waited for while its holder
// lives: the holder may be about to release it, or be a program that cleans directories, as
// systemd-tmpfiles does.
const liveHolderWaitMax = time.Second

// dirLock is flock(2) on a directory. No file has to be kept for it, so that an
// operator who removes files does not remove the lock. The zero value holds nothing.
type dirLock struct {
	fd     int
	locked bool
}

// dirLockedError says that another process holds the lock of a directory.
type dirLockedError struct{ pid int } // 0: unknown

func (e *dirLockedError) Error() string { return fmt.Sprintf("it is locked by process %d", e.pid) }

// lockDir takes the lock of a directory. It waits at most deadHolderWaitMax where the holder
// is dead or unknown (see there), and liveHolderWaitMax where it lives; the error is a
// [*dirLockedError] then. A file system that cannot lock directories, as NFS, gives a
// lock that is not held, and no error.
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
		case errors.Is(err, unix.EBADF), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
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

// flockHolder is the process that the kernel names as holder of the flock on a file;
// 0: it names none, or several files of that number.
func flockHolder(fd int) (pid int) {
	var stat unix.Stat_t
	locks, err := os.Open("/proc/locks")
	if err != nil || unix.Fstat(fd, &stat) != nil {
		return 0
	}
	defer locks.Close()
	inode, found := ":"+strconv.FormatUint(stat.Ino, 10), 0
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: FLOCK ADVISORY WRITE 4082 08:01:131077 0 EOF
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

// RunLock is held for a daemon's life: a second daemon on the same run directory would
// take the first one's sockets and its lease, whatever data directory it has.
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
	return fmt.Sprintf("run directory %s is in use by %s: another daemon runs with it; give this daemon another --run-dir", e.Dir, holder)
}

// LockRun takes the run directory, which must exist. If another process has it, the
// error wraps a [*RunLockedError].
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

// Release frees the run directory.
func (l *RunLock) Release() error {
	if err := l.dir.release(); err != nil {
		return fmt.Errorf("release the run directory: %w", err)
	}
	return nil
}
