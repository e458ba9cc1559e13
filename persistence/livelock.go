package persistence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DaemonLivelock is the name the daemon gives to [CreateLivelock]: Ganeti's.
const DaemonLivelock = "luxi-daemon"

// Livelock is a file that its process keeps locked while it lives: the
// kernel frees the lock when the process ends, however it ends (design.md
// 4, "Livelock files"). The descriptor is a bare number for the reason given at
// [QueueLock]: nothing but the end of the process, or Release, closes it.
type Livelock struct {
	path string
	fd   int
}

// CreateLivelock makes and locks <dir>/<name>_<unix seconds>_<pid>_<random>. The
// name is never used again, not even by a process started within the same
// second, and it becomes visible only with the lock taken: nobody can see it and
// judge its process dead. The path is absolute, for other processes read it.
func CreateLivelock(dir, name string) (*Livelock, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("create livelock %s: %w", name, err)
	}
	base := fmt.Sprintf("%s_%d_%d_%0*x", name, time.Now().Unix(), os.Getpid(), livelockRandomLen, rand.Uint32())
	path := filepath.Join(dir, base)
	temp := tempName(path)
	fd, err := openFile(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, fileMode)
	if err != nil {
		return nil, fmt.Errorf("create livelock %s: %w", path, err)
	}
	err = unix.Fchmod(fd, fileMode)
	if err == nil {
		err = setLock(fd, unix.F_WRLCK)
	}
	if err == nil {
		err = unix.Rename(temp, path)
	}
	if err != nil {
		discardTemp(temp)
		return nil, errors.Join(fmt.Errorf("create livelock %s: %w", path, err), unix.Close(fd))
	}
	return &Livelock{path: path, fd: fd}, nil
}

// Path is the absolute path to tell others.
func (l *Livelock) Path() string {
	return l.path
}

// ownerInfoMax bounds what a lock file may say of its process, in bytes.
const ownerInfoMax = 256

// WriteOwnerInfo writes information about the owner into the file, once. Only the lock says
// whether the owner is alive.
func (l *Livelock) WriteOwnerInfo(content []byte) error {
	if n, err := unix.Pwrite(l.fd, content, 0); err != nil || n != len(content) {
		return fmt.Errorf("note in livelock %s: %d bytes written: %w", l.path, n, err)
	}
	return nil
}

// ReadOwnerInfo returns what WriteOwnerInfo has written; nothing if another program made the
// file.
func ReadOwnerInfo(path string) ([]byte, error) {
	// O_NONBLOCK: as in ProbeLivelock.
	fd, err := openFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read livelock %s: %w", path, err)
	}
	content := make([]byte, ownerInfoMax)
	n, err := unix.Pread(fd, content, 0)
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return nil, fmt.Errorf("read livelock %s: %w", path, err)
	}
	return content[:n], nil
}

// Release says that the process is done: it removes the file, then frees the
// lock, in this order as Ganeti's job processes do. Both a missing file and a
// free lock mean dead.
func (l *Livelock) Release() error {
	if err := errors.Join(unix.Unlink(l.path), unix.Close(l.fd)); err != nil {
		return fmt.Errorf("release livelock %s: %w", l.path, err)
	}
	return nil
}

// ProbeLivelock tells whether the process of a livelock is alive, without
// waiting. Only a missing file or a lock that is free is a sign of death: on any
// error the process counts as alive, for a job wrongly held dead would be started
// twice. One's own livelock may be probed.
func ProbeLivelock(path string) (alive bool, err error) {
	if path == "" {
		return true, errors.New("probe livelock: no path given")
	}
	// O_NONBLOCK: paths come from other processes; opening a pipe must not hang.
	fd, err := openFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("probe livelock %s: %w", path, err)
	}
	lockErr := setLock(fd, unix.F_RDLCK)
	// Closing frees the probe's lock.
	if err := unix.Close(fd); err != nil {
		return true, fmt.Errorf("probe livelock %s: %w", path, err)
	}
	switch {
	case lockErr == nil:
		return false, nil
	case isLockConflict(lockErr):
		return true, nil
	default:
		return true, fmt.Errorf("probe livelock %s: %w", path, lockErr)
	}
}

// foreignGrace protects livelocks of other programs, which lock the file only
// after its name is visible: one removed in between would leave a living process
// whose livelock is missing.
const foreignGrace = time.Minute

// SweepLivelocks removes the files in dir whose processes are dead, and returns
// their names, sorted. keep says by base name which ones to leave: those that a job's file
// still names, so that a later probe has the same result.
// Temporary files go by the rule of [OSFiles.SweepTemp]; a file that
// CreateLivelock did not make is left while it is younger than a minute. An error
// with one file does not stop the sweep.
func SweepLivelocks(dir string, keep func(name string) bool) (removed []string, err error) {
	names, err := listNames(dir)
	if err != nil {
		return nil, fmt.Errorf("sweep livelocks in %s: %w", dir, systemError(err))
	}
	booted, err := bootTime()
	if err != nil {
		return nil, fmt.Errorf("sweep livelocks in %s: boot time: %w", dir, err)
	}
	var errs []error
	for _, name := range names {
		if keep(name) {
			continue
		}
		path := filepath.Join(dir, name)
		dead, err := isDeadLivelock(path, name, booted)
		if err != nil {
			errs = append(errs, err)
		}
		if !dead {
			continue
		}
		if err := unix.Unlink(path); err != nil && err != unix.ENOENT {
			errs = append(errs, fmt.Errorf("remove livelock %s: %w", path, err))
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(errs...)
}

func isDeadLivelock(path, name string, booted time.Time) (bool, error) {
	if strings.HasSuffix(name, tempSuffix) {
		return isStaleTemp(path, name, booted), nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // released meanwhile
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() || (!isOwnLivelockName(name) && time.Since(info.ModTime()) < foreignGrace) {
		return false, nil
	}
	alive, err := ProbeLivelock(path)
	return !alive, err
}

const livelockRandomLen = 8 // hexadecimal digits of a uint32

// isOwnLivelockName is true for <name>_<seconds>_<pid>_<random>, as CreateLivelock
// names them. Ganeti's end with the seconds.
func isOwnLivelockName(name string) bool {
	rest, random, ok := cutLast(name, "_")
	if !ok || len(random) != livelockRandomLen || strings.Trim(random, "0123456789abcdef") != "" {
		return false
	}
	rest, pid, ok := cutLast(rest, "_")
	if !ok || !isDigits(pid) {
		return false
	}
	_, seconds, ok := cutLast(rest, "_")
	return ok && isDigits(seconds)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
