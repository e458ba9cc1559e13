package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// PIDFile is the locked pid file of a daemon: <run>/<name>.pid. The lock is that of Ganeti's daemons, so one of them and
// lockstep's in its place exclude each other. The kernel frees it when the process ends.
type PIDFile struct {
	path string
	fd   int
}

// PIDFilePath is the path of the pid file of the daemon of that name.
func PIDFilePath(runDir, name string) string { return filepath.Join(runDir, name+".pid") }

// PIDFileLockedError says that a daemon of that kind runs.
type PIDFileLockedError struct{ Path string }

func (e *PIDFileLockedError) Error() string {
	return fmt.Sprintf("%s: writing PID file; already locked?: resource exhausted", e.Path)
}

// CreatePIDFile locks the file and writes the pid of this process. It does not wait for the lock.
func CreatePIDFile(path string, rules ownership.Rules) (*PIDFile, error) {
	for range lockAttemptsMax {
		if file, err := tryPIDFile(path, rules); file != nil || err != nil {
			return file, err
		}
	}
	return nil, fmt.Errorf("lock %s: other processes replace it all the time", path)
}

// tryPIDFile opens, locks and fills a pid file. It returns nil, nil if the locked file is no longer the one at path: RemoveStalePIDFile
// has removed it.
func tryPIDFile(path string, rules ownership.Rules) (*PIDFile, error) {
	fd, _, step, err := openOrCreate(path, unix.O_RDWR, rules.Of(ownership.PIDFile))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", step, path, err)
	}
	if err := setLock(fd, unix.F_WRLCK); isLockConflict(err) {
		return nil, errors.Join(&PIDFileLockedError{path}, unix.Close(fd))
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", path, err), unix.Close(fd))
	}
	if lock := (QueueLock{path: path, fd: fd}); !lock.namesLockedFile() {
		return nil, unix.Close(fd)
	}
	if err := writePID(fd); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), unix.Close(fd))
	}
	return &PIDFile{path, fd}, nil
}

// IsPIDFileLocked reports whether a daemon holds the file, and its pid as the file has it; 0 if it has none. A file that cannot be opened
// is not held.
func IsPIDFileLocked(path string) (pid int, locked bool) {
	fd, err := openFile(path, unix.O_RDWR, 0)
	if err != nil {
		return 0, false
	}
	defer func() { _ = unix.Close(fd) }()
	probe := wholeFileLock(unix.F_WRLCK)
	if unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &probe) != nil || probe.Type == unix.F_UNLCK {
		return 0, false
	}
	content := make([]byte, 32)
	n, _ := unix.Pread(fd, content, 0)
	for n > 0 && content[n-1] == '\n' {
		n--
	}
	pid, _ = strconv.Atoi(string(content[:n]))
	return pid, true
}

// RemoveStalePIDFile removes a pid file whose daemon has died. Ganeti's tools refuse to start a daemon beside such a file.
func RemoveStalePIDFile(path string) {
	fd, err := openFile(path, unix.O_RDWR, 0)
	if err != nil {
		return // there is none
	}
	lock := QueueLock{path: path, fd: fd}
	if setLock(fd, unix.F_WRLCK) == nil && lock.namesLockedFile() {
		_ = unix.Unlink(path)
	}
	_ = unix.Close(fd)
}

// Release removes the file and frees the lock.
func (f *PIDFile) Release() error {
	return errors.Join(os.Remove(f.path), unix.Close(f.fd))
}
