package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// replicatedDirs are the directories that hold the files which the nodes of a cluster have in common. Each may be a symbolic
// link or a mount. Directories below queue/archive are on its file system, because files are renamed into them.
var replicatedDirs = []string{".", paths.QueueDir, paths.ArchiveDir, paths.QuarantineDir}

// FileSystems are the file systems that hold the replicated files of a data directory. Each has an open descriptor: a sync of it
// reports the errors of all writes since the former sync, also of files that were replaced since.
//
// A sync that has failed is not repeated: the kernel drops what it could not write, and a second sync would succeed.
type FileSystems struct {
	dataDir string
	held    []fileSystem

	mu     sync.Mutex
	failed error // of the sync that has failed
}

type fileSystem struct {
	dir    string // one of replicatedDirs
	device uint64
	file   *os.File
}

// OpenFileSystems opens the file systems of a data directory. Errors of writes from before may be unknown to the descriptors.
func OpenFileSystems(dataDir string) (*FileSystems, error) {
	f := &FileSystems{dataDir: dataDir}
	for _, dir := range replicatedDirs {
		device, err := deviceOf(filepath.Join(dataDir, dir))
		if err == nil && !f.holds(device) {
			var file *os.File
			if file, err = os.Open(filepath.Join(dataDir, dir)); err == nil {
				f.held = append(f.held, fileSystem{dir, device, file})
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the file system of %s: %w", filepath.Join(dataDir, dir), err), f.Close())
		}
	}
	return f, nil
}

func (f *FileSystems) holds(device uint64) bool {
	for _, s := range f.held {
		if s.device == device {
			return true
		}
	}
	return false
}

// deviceOf is the device of the directory that a path leads to.
func deviceOf(dir string) (uint64, error) {
	var stat unix.Stat_t
	err := retryInterrupted(func() error { return unix.Stat(dir, &stat) })
	return stat.Dev, err
}

// Sync makes durable everything that was written to the file systems before the call, by any program. It may take as long as
// the writes of all programs need. An error is that of the first sync that failed, for ever. It is an error if a directory is on
// another file system than before.
func (f *FileSystems) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = f.syncEach()
	}
	return f.failed
}

func (f *FileSystems) syncEach() error {
	for _, dir := range replicatedDirs {
		device, err := deviceOf(filepath.Join(f.dataDir, dir))
		if err != nil {
			return fmt.Errorf("sync the file system of %s: %w", dir, err)
		}
		if !f.holds(device) {
			return fmt.Errorf("sync the file system of %s: the directory is on another file system than before", dir)
		}
	}
	for _, s := range f.held {
		if err := retryInterrupted(func() error { return unix.Syncfs(int(s.file.Fd())) }); err != nil {
			return fmt.Errorf("sync the file system of %s: %w", s.dir, err)
		}
	}
	return nil
}

// reportingSystems are the types of file systems for which syncfs writes everything and reports all errors of writes. Of
// others, such as network and stacked file systems, this is not known.
var reportingSystems = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true}

// Reports reports whether an error of a write, to any of the file systems, is an error of the next Sync: the kernel is Linux 5.8
// or later, and the file systems are of types for which that is known.
func (f *FileSystems) Reports() bool {
	var system unix.Utsname
	if err := unix.Uname(&system); err != nil || !reportsErrors(unix.ByteSliceToString(system.Release[:])) {
		return false
	}
	for _, s := range f.held {
		var stat unix.Statfs_t
		err := unix.Fstatfs(int(s.file.Fd()), &stat)
		if err != nil || !reportingSystems[int64(stat.Type)] { //nolint:unconvert // other machines have other types
			return false
		}
	}
	return true
}

// reportsErrors reports whether syncfs of a release of Linux, such as "6.1.0-18-amd64", reports errors of writes.
func reportsErrors(release string) bool {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	x, err := strconv.Atoi(major)
	y, minorErr := strconv.Atoi(minor)
	return err == nil && (x > 5 || x == 5 && minorErr == nil && y >= 8)
}

// Close closes the descriptors of the file systems.
func (f *FileSystems) Close() error {
	var errs []error
	for _, s := range f.held {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}
