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

	"lockstep/core/ownership"
)

// DaemonLivelock is the name of the daemon's livelock, as in Ganeti.
const DaemonLivelock = "luxi-daemon"

// Livelock is a file that its process keeps locked while it lives. The kernel frees the lock when
// the process ends, in whatever way (design.md "Livelock files"). The descriptor is a plain
// number, as in [QueueLock]: only Release or the end of the process closes it.
type Livelock struct {
	path string
	fd   int
}

// CreateLivelock creates and locks <dir>/<name>_<unix seconds>_<pid>_<random>. The name is
// unique, even among processes started within a second. The file gets its name after it is
// locked, so that no other process takes this one for dead. The path is absolute, because other
// processes read it.
func CreateLivelock(dir, name string, rules ownership.Rules) (*Livelock, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("create livelock %s: %w", name, err)
	}
	base := fmt.Sprintf("%s_%d_%d_%0*x", name, time.Now().Unix(), os.Getpid(), livelockRandomLen, rand.Uint32())
	path := filepath.Join(dir, base)
	temp := tempName(path)
	attributes := rules.Of(ownership.RunFile)
	fd, err := openFile(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, attributes.Mode&privateBits)
	if err != nil {
		return nil, fmt.Errorf("create livelock %s: %w", path, err)
	}
	_, err = setAttributes(fd, attributes)
	if err == nil {
		err = setLock(fd, unix.F_WRLCK)
	}
	// The lock comes before the name, by which others would take the process for dead.
	if err == nil {
		err = unix.Rename(temp, path)
	}
	if err != nil {
		discardTemp(temp)
		return nil, errors.Join(fmt.Errorf("create livelock %s: %w", path, err), unix.Close(fd))
	}
	return &Livelock{path: path, fd: fd}, nil
}

// Path is the absolute path of the file.
func (l *Livelock) Path() string {
	return l.path
}

// ownerInfoMax bounds the information about the owner, in bytes.
const ownerInfoMax = 256

// WriteOwnerInfo writes information about the owner into the file, without a sync. Content that
// replaces other content has the same length. Only the lock says whether the owner is alive.
func (l *Livelock) WriteOwnerInfo(content []byte) error {
	if n, err := unix.Pwrite(l.fd, content, 0); err != nil || n != len(content) {
		return fmt.Errorf("note in livelock %s: %d bytes written: %w", l.path, n, err)
	}
	return nil
}

// ReadOwnerInfo returns the content that WriteOwnerInfo has written; nothing if another program
// created the file.
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

// Release removes the file and then frees the lock, in the order of Ganeti's job processes. Both
// a missing file and a free lock mean a dead process.
func (l *Livelock) Release() error {
	if err := errors.Join(unix.Unlink(l.path), unix.Close(l.fd)); err != nil {
		return fmt.Errorf("release livelock %s: %w", l.path, err)
	}
	return nil
}

// ProbeLivelock reports whether the process of a livelock is alive. It does not wait. Only a
// missing file or a free lock means death. On any error the process counts as alive: a job
// wrongly taken for dead would run twice. A process may probe its own livelock.
func ProbeLivelock(path string) (alive bool, err error) {
	if path == "" {
		return true, errors.New("probe livelock: no path given")
	}
	// O_NONBLOCK: the path comes from another process; opening a pipe must not hang.
	fd, err := openFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("probe livelock %s: %w", path, err)
	}
	lockErr := setLock(fd, unix.F_RDLCK)
	// close frees the lock that the probe has taken.
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

// foreignGrace is the age below which livelocks of other programs are kept. Those programs lock
// the file after it has its name; a sweep in between would remove the livelock of a living
// process.
const foreignGrace = time.Minute

// SweepLivelocks removes the files in dir whose processes are dead, and returns their names,
// sorted. It keeps a file whose base name keep accepts: a job's file still names it, and a later
// probe must find it. It removes temporary files by the rule of [OSFiles.SweepTemp], and files
// that CreateLivelock did not create only when they are older than a minute. After an error with
// one file it continues.
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
		return false, nil // released since the directory was read
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

// isOwnLivelockName reports whether the name is <name>_<seconds>_<pid>_<random>, as
// CreateLivelock makes it. Ganeti's names end with the seconds.
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
