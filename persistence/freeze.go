package persistence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// SharedFile is a file that the nodes of a cluster have in common, with its path below
// the data directory.
type SharedFile struct {
	Path string
	Size int64 // bytes
}

// SharedFiles lists the files of a snapshot: live jobs and their records, serial, drain flag,
// configuration, the files that belong to it, settings, keys, grants, sessions of the console, features of the members, schedules and the
// audit log, sorted. Archived jobs are not part of a snapshot. The journal of the configuration is not either: it is appended to in place,
// and each node folds its own at other times.
func SharedFiles(dataDir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dataDir, paths.QueueDir))
	if err != nil {
		return nil, fmt.Errorf("list the queue: %w", err)
	}
	var files []string
	for _, entry := range entries {
		name := paths.QueueDir + "/" + entry.Name()
		_, job := paths.ParseJobName(entry.Name())
		_, record := paths.ParseRecordName(entry.Name())
		if job || record || name == paths.SerialPath || name == paths.DrainPath {
			files = append(files, name)
		}
	}
	audit, err := listNames(filepath.Join(dataDir, paths.AuditDir))
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", err)
	}
	for _, base := range audit {
		if name := paths.AuditDir + "/" + base; isAudit(name) {
			files = append(files, name)
		}
	}
	schedules, err := listNames(filepath.Join(dataDir, paths.ScheduleDir))
	if err != nil {
		return nil, fmt.Errorf("list the schedules: %w", err)
	}
	for _, base := range schedules {
		if name := paths.ScheduleDir + "/" + base; isSchedule(name) {
			files = append(files, name)
		}
	}
	for _, name := range []string{
		paths.ConfigPath, paths.ConfigExtraPath, paths.TempResPath, paths.SettingsPath,
		paths.DurationsPath, paths.ConfdKeyPath, paths.ConfdOtherKeyPath, paths.SessionsPath, paths.AccessPath,
		paths.FeaturesPath,
	} {
		if _, err := os.Stat(filepath.Join(dataDir, name)); err == nil {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files, nil
}

func isSchedule(name string) bool {
	_, ok := paths.ParseSchedulePath(name)
	return ok
}

func isAudit(name string) bool {
	_, ok := paths.ParseAuditPath(name)
	return ok
}

// Digest returns the SHA-256 of a file, in hexadecimal digits, and its size. If the file is
// replaced meanwhile, both are of the old content. It makes no more system calls than needed, because it is called for each file
// of a queue.
func Digest(dataDir, name string) (sum string, size int64, err error) {
	fd, err := openFile(filepath.Join(dataDir, name), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", 0, fmt.Errorf("open %s: %w", name, err)
	}
	data, err := readAll(fd)
	_ = unix.Close(fd) // only read: an error of close loses nothing
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", name, err)
	}
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:]), int64(len(data)), nil
}

// Frozen is a copy of the shared files as they were at one time, or a little later. Shared files
// are replaced and never changed in place, so that a hard link to each is a copy that needs no
// space.
type Frozen struct {
	dir   string
	Files []SharedFile
}

const frozenPrefix = "frozen-"

// Freeze makes a copy below dir, which must be on the same file system. It calls overrides after
// the copy is made; the returned contents, by path, replace those of the disk. Of the files of the
// configuration, a path without a file is added.
func Freeze(dataDir, dir string, overrides func() (map[string][]byte, error)) (*Frozen, error) {
	names, err := SharedFiles(dataDir)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(dir, frozenPrefix)
	if err != nil {
		return nil, fmt.Errorf("freeze the files: %w", err)
	}
	f := &Frozen{dir: scratch}
	for _, dir := range []string{paths.QueueDir, paths.AuditDir, paths.ScheduleDir} {
		if err := os.Mkdir(filepath.Join(scratch, dir), 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("freeze the files: %w", err), f.Close())
		}
	}
	for _, name := range names {
		err := f.link(dataDir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // archived since the list was made
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("freeze %s: %w", name, err), f.Close())
		}
	}
	contents, err := overrides()
	if err == nil {
		err = f.override(contents)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("freeze the files: %w", err), f.Close())
	}
	return f, nil
}

// override replaces contents in the copy. It creates new files, because the others are hard links
// to files in use.
func (f *Frozen) override(contents map[string][]byte) error {
	for _, name := range []string{paths.ConfigPath, paths.ConfigExtraPath, paths.TempResPath} {
		isNew := !slices.ContainsFunc(f.Files, func(file SharedFile) bool { return file.Path == name })
		if _, wanted := contents[name]; wanted && isNew {
			f.Files = append(f.Files, SharedFile{Path: name})
		}
	}
	for i := range f.Files {
		file := &f.Files[i]
		content, other := contents[file.Path]
		if !other {
			continue
		}
		name := filepath.Join(f.dir, file.Path)
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return err
		}
		file.Size = int64(len(content))
	}
	return nil
}

func (f *Frozen) link(dataDir, name string) error {
	to := filepath.Join(f.dir, name)
	if err := os.Link(filepath.Join(dataDir, name), to); err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	f.Files = append(f.Files, SharedFile{name, info.Size()})
	return nil
}

// Open reads a file of the copy, by its path below the data directory.
func (f *Frozen) Open(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(f.dir, name))
}

// Close removes the copy from the disk.
func (f *Frozen) Close() error { return os.RemoveAll(f.dir) }

// SweepFrozen removes copies that a crash has left below dir.
func SweepFrozen(dir string) error {
	leftovers, err := filepath.Glob(filepath.Join(dir, frozenPrefix+"*"))
	for _, path := range leftovers {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
