package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
	"lockstep/core/paths"
)

// QueueLock is held while a daemon runs: two daemons on one queue would give out the same ids. It
// has two parts, which the kernel frees when the process ends. The first is an
// open-file-description record lock on queue/lock. It conflicts with the classic record lock of
// Ganeti's daemon, but not with flock(2). The second is flock(2) on the directory queue/, which
// excludes a second lockstepd even if queue/lock was removed.
//
// The descriptors are plain numbers: the garbage collector would close an unused os.File, and the
// lock would be lost.
type QueueLock struct {
	path string
	fd   int
	dir  dirLock
}

// QueueLockedError says that another process holds the lock of the queue.
type QueueLockedError struct {
	Path string
	PID  int // 0 if unknown
}

func (e *QueueLockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked: another daemon runs on this queue", e.Path)
	}
	return fmt.Sprintf("%s is locked by process %d: another daemon runs on this queue", e.Path, e.PID)
}

// lockAttemptsMax bounds how often the file may disappear between open and lock, as it does when
// a daemon releases it at that moment.
const lockAttemptsMax = 100

// A daemon that was killed while it spawned a process leaves its lock with that process for a
// moment, between fork and exec. So LockQueue waits for a lock whose holder is dead, at most
// deadHolderWaitMax.
const (
	deadHolderWaitMax = 5 * time.Second
	lockRetryInterval = 10 * time.Millisecond
)

// LockQueue takes the lock. If another living process holds it, LockQueue does not wait, and the
// error wraps a [*QueueLockedError]. queue/ must exist: see [MakeDirs].
func LockQueue(dataDir string, rules ownership.Rules) (*QueueLock, error) {
	return lockQueue(dataDir, rules, func() { time.Sleep(lockRetryInterval) })
}

// lockQueue locks the queue. While the holder of the lock is dead, whose lock the kernel gives back soon, it calls pause and tries again.
// The error is a *QueueLockedError if another process has the lock.
func lockQueue(dataDir string, rules ownership.Rules, pause func()) (*QueueLock, error) {
	path, err := filepath.Abs(filepath.Join(dataDir, paths.LockPath))
	if err != nil {
		return nil, fmt.Errorf("lock queue: %w", err)
	}
	deadline := time.Now().Add(deadHolderWaitMax)
	for range lockAttemptsMax {
		lock, err := tryLockQueue(path, rules)
		var locked *QueueLockedError
		for errors.As(err, &locked) && isProcessDead(locked.PID) && time.Now().Before(deadline) {
			pause()
			lock, err = tryLockQueue(path, rules)
		}
		if lock != nil || err != nil {
			return lock, err
		}
	}
	return nil, fmt.Errorf("lock queue: other processes replace %s all the time", path)
}

// isProcessDead reports whether certainly no running process has that pid. A zombie does not run.
func isProcessDead(pid int) bool {
	if pid <= 0 {
		return false
	}
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	state, _, ok := processStat(pid)
	return ok && state == "Z"
}

// tryLockQueue locks the queue's file and its directory, and writes the pid. It returns nil, nil if the locked file is no longer the one
// called path: its holder has unlinked it, and a third daemon may have locked a new one.
func tryLockQueue(path string, rules ownership.Rules) (*QueueLock, error) {
	fd, _, step, err := openOrCreate(path, unix.O_RDWR, rules.DataFile(paths.LockPath))
	if err != nil {
		return nil, fmt.Errorf("lock queue: %s %s: %w", step, path, err)
	}
	lock := &QueueLock{path: path, fd: fd}
	if err := setLock(fd, unix.F_WRLCK); isLockConflict(err) {
		return nil, errors.Join(&QueueLockedError{Path: path, PID: holderPID(fd)}, unix.Close(fd))
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("lock queue: lock %s: %w", path, err), unix.Close(fd))
	}
	// Looked at after the lock is taken: the former holder may have unlinked the file since it was opened here, and then this lock protects
	// nothing.
	if !lock.namesLockedFile() {
		return nil, unix.Close(fd)
	}
	if err := lock.lockDirectory(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	// With both locks held. Until then the file names the process that had them.
	if err := writePID(fd); err != nil {
		return nil, errors.Join(fmt.Errorf("lock queue: write %s: %w", path, err), lock.Release())
	}
	return lock, nil
}

// lockDirectory takes the second part of the lock. A conflict means that queue/lock was removed
// while its daemon runs: the holder has locked another file.
func (l *QueueLock) lockDirectory() (err error) {
	dir := filepath.Dir(l.path)
	l.dir, err = lockDir(dir)
	if locked, ok := errors.AsType[*dirLockedError](err); ok {
		return &QueueLockedError{Path: dir, PID: locked.pid}
	}
	if err != nil {
		return fmt.Errorf("lock queue: lock %s: %w", dir, err)
	}
	return nil
}

// LockReplacedError says that queue/lock is no longer the file that this daemon has locked: it
// was removed, and may have been created again. Ganeti's daemon could lock the new file and run
// beside this daemon.
type LockReplacedError struct{ Path string }

func (e *LockReplacedError) Error() string {
	return fmt.Sprintf("%s was removed or replaced while this daemon runs: it protects the queue no more. "+
		"The daemon stops; start it again, and leave that file alone", e.Path)
}

// CheckHeld returns a [*LockReplacedError] if queue/lock is not the locked file. It returns nil
// if it cannot examine the file.
func (l *QueueLock) CheckHeld() error {
	var locked, named unix.Stat_t
	lockedErr, namedErr := unix.Fstat(l.fd, &locked), unix.Stat(l.path, &named)
	sameFile := namedErr == nil && locked.Dev == named.Dev && locked.Ino == named.Ino
	missing := errors.Is(namedErr, unix.ENOENT) || errors.Is(namedErr, unix.ENOTDIR)
	if lockedErr == nil && (missing || namedErr == nil && !sameFile) {
		return &LockReplacedError{l.path}
	}
	return nil
}

// Release unlinks the file, as Ganeti's daemon does, and frees the lock. It frees the directory
// first, because a daemon that waits for the file must not find the directory locked. It unlinks
// the file before it closes it: otherwise another daemon could lock the file and then lose it.
func (l *QueueLock) Release() error {
	errs := []error{l.dir.release()}
	if l.namesLockedFile() {
		errs = append(errs, unix.Unlink(l.path))
	}
	errs = append(errs, unix.Close(l.fd))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("release %s: %w", l.path, err)
	}
	return nil
}

// namesLockedFile reports whether path leads to the locked file. An operator may have removed the
// file.
func (l *QueueLock) namesLockedFile() bool {
	var locked, named unix.Stat_t
	if unix.Fstat(l.fd, &locked) != nil || unix.Stat(l.path, &named) != nil {
		return false
	}
	return locked.Dev == named.Dev && locked.Ino == named.Ino
}

// writePID writes the pid into the file, for the error of a second daemon. The kernel reports the
// pid only of classic record locks.
func writePID(fd int) error {
	if err := unix.Ftruncate(fd, 0); err != nil {
		return err
	}
	_, err := unix.Pwrite(fd, []byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holderPID returns the pid of the holder: from the kernel for a classic lock (it reports -1 for
// one like ours), and else from the file. It returns 0 if neither has it: the holder may have
// just ended, or not have written its pid yet.
func holderPID(fd int) int {
	probe := wholeFileLock(unix.F_WRLCK)
	if unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &probe) == nil && probe.Type != unix.F_UNLCK && probe.Pid > 0 {
		return int(probe.Pid)
	}
	text := make([]byte, 32)
	n, err := unix.Pread(fd, text, 0)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// setLock sets an open-file-description lock of the given type on the whole file, without
// waiting. Unlike a classic record lock it stays when another descriptor of the file is closed,
// and it conflicts within a process.
func setLock(fd int, lockType int16) error {
	lock := wholeFileLock(lockType)
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock)
}

// wholeFileLock has start 0 and length 0, like Ganeti's lock; the kernel requires pid 0.
func wholeFileLock(lockType int16) unix.Flock_t {
	return unix.Flock_t{Type: lockType}
}

// isLockConflict reports whether the error says that another lock exists; POSIX permits both
// codes.
func isLockConflict(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES)
}
