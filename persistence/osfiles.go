package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// OSFiles are the files below one data directory, on a real disk. Paths are slash-separated and
// relative to that directory. An absolute or empty path, or one with "..", "." or "//" in it, is
// a broken invariant and panics; "." alone is the data directory itself. Symbolic links are
// followed, so that an operator can put the queue on another disk.
//
// All methods may be called from several goroutines at once. op names the caller's step. It is
// the first word of every error, and selects the calls that a simulated disk fails. Errors wrap
// the system's, so that errors.Is(err, fs.ErrNotExist) and the like work.
//
// The methods make system calls directly instead of through os.File or os.Root: a scan of 100,000
// files takes two thirds or half of the time.
type OSFiles struct {
	root   string          // absolute
	owners ownership.Rules // of new files and directories

	// parentsMu is held shared by a rename, and exclusively while a missing parent is created and
	// synced: no file is renamed into a directory that is not durable.
	parentsMu sync.RWMutex

	mu          sync.Mutex
	dirHandles  map[string]dirHandle // open directories, by path; at most dirHandlesMax
	fileSystems *FileSystems         // nil until HoldFileSystems
}

// dirHandle is an open directory, kept between syncs: the kernel reports a write-back error
// between a rename and its sync for certain only to a descriptor that was open then.
type dirHandle struct {
	file *os.File
	info fs.FileInfo
}

// dirHandlesMax bounds the open directories. A daemon syncs the queue, the data directory and the
// archive directories in use.
const dirHandlesMax = 64

// OpenFiles opens the data directory root, which must exist and be writable. New files and
// directories get user, group and mode by the rules.
func OpenFiles(root string, owners ownership.Rules) (*OSFiles, error) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open the data directory %s: %w", root, err)
	}
	info, err := os.Stat(absolute)
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, absolute, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return nil, fmt.Errorf("open the data directory %s: %w", absolute, systemError(err))
	}
	return &OSFiles{root: absolute, owners: owners, dirHandles: make(map[string]dirHandle)}, nil
}

// Close closes the directories that SyncDir has opened. No method may run or be called
// afterwards.
func (f *OSFiles) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, handle := range f.dirHandles {
		errs = append(errs, handle.file.Close())
	}
	f.dirHandles = nil
	if f.fileSystems != nil {
		errs = append(errs, f.fileSystems.Close())
		f.fileSystems = nil
	}
	return errors.Join(errs...)
}

// HoldFileSystems opens the file systems of the replicated files, so that SyncAll reports all errors of later writes. It returns
// whether they do report them, see [FileSystems.Reports].
func (f *OSFiles) HoldFileSystems() (reports bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fileSystems == nil {
		if f.fileSystems, err = OpenFileSystems(f.root); err != nil {
			return false, err
		}
	}
	return f.fileSystems.Reports(), nil
}

// SyncAll makes all changes of replicated files durable, see [FileSystems.Sync].
func (f *OSFiles) SyncAll(op string) error {
	if _, err := f.HoldFileSystems(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if err := f.fileSystems.Sync(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// abs returns the system's path for a path of the port.
func (f *OSFiles) abs(path string) string {
	if !fs.ValidPath(path) {
		panic(fmt.Sprintf("persistence: path %q leaves the data directory or is not in plain form", path))
	}
	return f.root + "/" + path
}

// SyncDir makes earlier renames, creations and removals in dir survive a power loss. dir must
// exist.
func (f *OSFiles) SyncDir(op, dir string) error {
	handle, err := f.dirHandle(dir)
	if err == nil {
		err = handle.Sync()
	}
	if err != nil {
		return fileError(op, "sync directory", dir, systemError(err))
	}
	return nil
}

// dirHandle returns an open descriptor of the directory that currently has the name. It is kept for later calls, and the caller does not
// close it. A directory that was removed and created again under the same name is a different one.
func (f *OSFiles) dirHandle(dir string) (*os.File, error) {
	name := f.abs(dir)
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if cached, ok := f.dirHandles[dir]; ok && os.SameFile(cached.info, info) {
		return cached.file, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	// Handles are dropped and not closed, because another goroutine may be about to sync one. The
	// runtime closes them when they are unreferenced.
	if len(f.dirHandles) >= dirHandlesMax {
		clear(f.dirHandles)
	}
	f.dirHandles[dir] = dirHandle{file: file, info: info}
	return file, nil
}

// Read returns the contents of path. An absent file is an error that wraps
// fs.ErrNotExist.
func (f *OSFiles) Read(op, path string) ([]byte, error) {
	// O_NONBLOCK: opening a pipe with this name must not hang.
	fd, err := openFile(f.abs(path), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(op, "open", path, err)
	}
	data, err := readAll(fd)
	// The descriptor was only read: an error of close loses nothing.
	_ = unix.Close(fd)
	if err != nil {
		return nil, fileError(op, "read", path, err)
	}
	return data, nil
}

// readAll reads as many bytes as the file had when it was opened. That is the whole file, so no
// read at its end is needed: files are replaced as a whole, and only the writer of the journal
// reads it.
func readAll(fd int) ([]byte, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("not a regular file")
	}
	data := make([]byte, stat.Size)
	filled := 0
	for filled < len(data) {
		var n int
		err := retryInterrupted(func() (err error) { n, err = unix.Read(fd, data[filled:]); return err })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break // another program has truncated the file
		}
		filled += n
	}
	return data[:filled], nil
}

// Identify returns inode, size and time of the last write in nanoseconds. Chmod and chown do not
// change them, a touch does. An absent file is an error that wraps fs.ErrNotExist.
func (f *OSFiles) Identify(op, path string) (string, error) {
	var stat unix.Stat_t
	if err := retryInterrupted(func() error { return unix.Stat(f.abs(path), &stat) }); err != nil {
		return "", fileError(op, "examine", path, err)
	}
	return fmt.Sprintf("%d %d %d.%09d", stat.Ino, stat.Size, stat.Mtim.Sec, stat.Mtim.Nsec), nil
}

// Rename renames from to to, and replaces a file there. It creates missing parents of to,
// durably. The file keeps user, group and mode. The rename is durable after SyncDir on the directories of both. If from is
// absent, the error wraps fs.ErrNotExist.
func (f *OSFiles) Rename(op, from, to string) error {
	source, target := f.abs(from), f.abs(to)
	f.parentsMu.RLock()
	err := unix.Rename(source, target)
	f.parentsMu.RUnlock()
	if errors.Is(err, unix.ENOENT) {
		err = f.renameMakingParents(source, target)
	}
	if err != nil {
		return fileError(op, "rename", from+" to "+to, systemError(err))
	}
	return nil
}

// renameMakingParents handles the rare failure of a rename: the first of ten thousand jobs in an
// archive directory, or a missing source.
func (f *OSFiles) renameMakingParents(source, target string) error {
	f.parentsMu.Lock()
	defer f.parentsMu.Unlock()
	var stat unix.Stat_t
	if err := unix.Lstat(source, &stat); err != nil {
		return err
	}
	if err := makeDir(filepath.Dir(target), f.owners.Of(ownership.QueueDir)); err != nil {
		return err
	}
	return unix.Rename(source, target)
}

// Remove removes the file path. If the file is absent, it returns nil. The removal is durable
// after SyncDir on its directory.
func (f *OSFiles) Remove(op, path string) error {
	if err := unix.Unlink(f.abs(path)); err != nil && err != unix.ENOENT {
		return fileError(op, "remove", path, err)
	}
	return nil
}

// List returns the base names of all entries in dir, including directories and temporary files,
// sorted bytewise. An absent directory is empty.
func (f *OSFiles) List(op, dir string) ([]string, error) {
	names, err := listNames(f.abs(dir))
	if err != nil {
		return nil, fileError(op, "list", dir, systemError(err))
	}
	return names, nil
}

func listNames(dir string) ([]string, error) {
	file, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := file.Readdirnames(-1)
	_ = file.Close() // only read: an error of close loses nothing
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// systemError removes the path that package os adds to a system error. The caller's message has
// the path relative to the data directory.
func systemError(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
