package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
	"lockstep/core/paths"
)

// queueVersion is the only supported layout.
const queueVersion = "1"

// newDir is a directory to create if it is missing.
type newDir struct {
	path  string
	class ownership.Class
}

// MakeDirs creates the missing directories of the data, run and log trees, with user, group and
// mode by the rules, whatever the umask. It does not change existing directories. New directories
// in the data tree are durable when it returns. The error is a *ForeignDirError if one of the three belongs to a
// user who is neither this process's, nor root, nor one of the rules: that user could replace every file in it.
func MakeDirs(dataDir, runDir, logDir string, rules ownership.Rules) error {
	err := makeDirs(rules, newDir{dataDir, ownership.DataDir},
		newDir{filepath.Join(dataDir, paths.ArchiveDir), ownership.QueueDir},
		newDir{filepath.Join(dataDir, paths.QuarantineDir), ownership.QueueDir},
		newDir{filepath.Join(dataDir, paths.AuditDir), ownership.AuditDir},
		newDir{filepath.Join(dataDir, paths.ScheduleDir), ownership.AuditDir},
		newDir{runDir, ownership.RunDir},
		newDir{LivelockDir(runDir), ownership.LivelockDir},
		newDir{messageDir(runDir), ownership.LivelockDir},
		newDir{logDir, ownership.LogDir})
	if err == nil {
		err = errors.Join(checkOwner("data-dir", dataDir, rules), checkOwner("run-dir", runDir, rules), checkOwner("log-dir", logDir, rules))
	}
	if err != nil {
		return err
	}
	// An earlier daemon may have created directories and files in them, and crashed before its
	// sync. CheckQueue relies on the order: queue/version is durable before the configuration is.
	for _, dir := range []string{"", paths.QueueDir, paths.ArchiveDir} {
		if err := syncPath(filepath.Join(dataDir, dir)); err != nil {
			return fmt.Errorf("sync directory %s: %w", filepath.Join(dataDir, dir), err)
		}
	}
	return nil
}

// MakeRunDirs creates the missing directories of the run tree that job processes use.
func MakeRunDirs(runDir string, rules ownership.Rules) error {
	return makeDirs(rules, newDir{runDir, ownership.RunDir},
		newDir{LivelockDir(runDir), ownership.LivelockDir}, newDir{messageDir(runDir), ownership.LivelockDir})
}

func makeDirs(rules ownership.Rules, dirs ...newDir) error {
	for _, dir := range dirs {
		if err := makeDir(dir.path, rules.Of(dir.class)); err != nil {
			return fmt.Errorf("make directory %s: %w", dir.path, err)
		}
	}
	return nil
}

// makeDir creates dir and its missing parents, and syncs the parent of each new one. If a step
// after the creation fails, it removes the directory again: the next call would take it for
// complete.
func makeDir(dir string, a ownership.Attributes) error {
	err := unix.Mkdir(dir, a.Mode)
	if errors.Is(err, unix.ENOENT) && filepath.Dir(dir) != dir {
		if err := makeDir(filepath.Dir(dir), a); err != nil {
			return err
		}
		err = unix.Mkdir(dir, a.Mode)
	}
	if errors.Is(err, unix.EEXIST) {
		return requireDir(dir)
	}
	if err != nil {
		return err
	}
	if a.UID >= 0 || a.GID >= 0 {
		err = unix.Chown(dir, a.UID, a.GID)
	}
	if err == nil {
		err = unix.Chmod(dir, a.Mode)
	}
	if err == nil {
		err = syncPath(filepath.Dir(dir))
	}
	if err != nil {
		return errors.Join(err, unix.Rmdir(dir))
	}
	return nil
}

func requireDir(name string) error {
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	return nil
}

func syncPath(dir string) error {
	fd, err := openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = retryInterrupted(func() error { return unix.Fsync(fd) })
	return errors.Join(err, unix.Close(fd))
}

// QueueFiles are the file operations that [InitQueue] needs. [OSFiles] and the simulated disk
// implement them.
type QueueFiles interface {
	Replace(op, path string, data ...[]byte) error
	SyncDir(op, dir string) error
	Read(op, path string) ([]byte, error)
	List(op, dir string) ([]string, error)
}

// InitResult is the result of [InitQueue].
type InitResult struct {
	Serial int64 // last job id handed out, >= 0
	// SerialRecreated says that queue/serial was missing although there are job files. The serial
	// is the highest id of any of these. If jobs above it were lost, their ids are given again:
	// the caller should log a warning.
	SerialRecreated bool
}

// VersionError says that the queue has an unsupported layout. Nothing in it was changed.
type VersionError struct {
	Path        string
	Found, Want string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s is %q, this program knows only version %q", e.Path, e.Found, e.Want)
}

// InitMember is [InitQueue] for a node whose consensus log writes the serial. It does not read queue/serial: after a power
// loss the log replaces its content. The serial must exist, which [CheckQueueMark] checks.
func InitMember(files QueueFiles) error {
	wrote, err := initVersion(files)
	if err == nil && wrote {
		err = files.SyncDir("init-queue", paths.QueueDir)
	}
	return err
}

// InitQueue checks queue/version and queue/serial, and creates them where they are missing,
// durably. The caller holds the [QueueLock]. Errors: [*VersionError], a serial that is not a
// number, or an error of the disk.
func InitQueue(files QueueFiles) (InitResult, error) {
	wroteVersion, err := initVersion(files)
	if err != nil {
		return InitResult{}, err
	}
	start, wroteSerial, err := initSerial(files)
	if err != nil {
		return InitResult{}, err
	}
	if wroteVersion || wroteSerial {
		if err := files.SyncDir("init-queue", paths.QueueDir); err != nil {
			return InitResult{}, err
		}
	}
	return start, nil
}

func initVersion(files QueueFiles) (wrote bool, err error) {
	data, err := files.Read("version", paths.VersionPath)
	if errors.Is(err, fs.ErrNotExist) {
		return true, files.Replace("version", paths.VersionPath, []byte(queueVersion+"\n"))
	}
	if err != nil {
		return false, err
	}
	if found := strings.TrimSpace(string(data)); found != queueVersion {
		return false, &VersionError{Path: paths.VersionPath, Found: found, Want: queueVersion}
	}
	return false, nil
}

func initSerial(files QueueFiles) (start InitResult, wrote bool, err error) {
	data, err := files.Read("serial", paths.SerialPath)
	if err == nil {
		serial, err := paths.ParseSerial(data)
		if err != nil {
			return InitResult{}, false, fmt.Errorf("%s: %w", paths.SerialPath, err)
		}
		return InitResult{Serial: serial}, false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return InitResult{}, false, err
	}
	// A serial below an id in use would give out that id again.
	highest, found, err := highestJobID(files)
	if err != nil {
		return InitResult{}, false, err
	}
	err = files.Replace("serial", paths.SerialPath, paths.FormatSerial(highest))
	return InitResult{Serial: highest, SerialRecreated: found}, true, err
}
