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
)

// OSFiles are the files below one data directory, on a real disk. Paths are
// slash-separated and relative to that directory; an absolute path, an empty
// one, or one with "..", "." or "//" in it is a broken invariant and panics ("."
// alone is the data directory itself). Symbolic links are followed: an operator
// may have the queue on another disk.
//
// All methods may be called from several goroutines at once. op names the
// caller's step; it stands first in every error, and fault injection in a
// simulated disk goes by it. Errors wrap the system's, so that
// errors.Is(err, fs.ErrNotExist) and the like work.
//
// Calls go straight to the system rather than through os.File or os.Root: a
// scan of 100,000 files takes two thirds, or half, of the time.
type OSFiles struct {
	root string // absolute

	// parentsMu is held shared by a rename and exclusively while a missing parent
	// is made and synced: nothing is renamed into a directory that power loss
	// could still take away.
	parentsMu sync.RWMutex

	mu         sync.Mutex
	dirHandles map[string]dirHandle // open directories, by path; at most dirHandlesMax
}

// dirHandle is kept open between syncs: a write-back error that happens between
// a rename and its sync is reported for certain only to a descriptor that was
// open by then.
type dirHandle struct {
	file *os.File
	info fs.FileInfo
}

// dirHandlesMax bounds the open directories. A daemon syncs the queue, the data
// directory and the archive directories of the jobs it is archiving just now.
const dirHandlesMax = 64

// OpenFiles opens the data directory root, which must exist and be writable.
func OpenFiles(root string) (*OSFiles, error) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", root, err)
	}
	info, err := os.Stat(absolute)
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, absolute, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", absolute, systemError(err))
	}
	return &OSFiles{root: absolute, dirHandles: make(map[string]dirHandle)}, nil
}

// Close closes the directories kept open for SyncDir. No method may be running
// or be called afterwards.
func (f *OSFiles) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, handle := range f.dirHandles {
		errs = append(errs, handle.file.Close())
	}
	f.dirHandles = nil
	return errors.Join(errs...)
}

// abs maps a path of the port to one of the system.
func (f *OSFiles) abs(path string) string {
	if !fs.ValidPath(path) {
		panic(fmt.Sprintf("persistence: path %q leaves the data directory or is not in plain form", path))
	}
	return f.root + "/" + path
}

// SyncDir makes the renames, creations and removals done in dir before the call
// survive power loss. dir must exist.
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

// dirHandle returns an open descriptor of the directory that has the name dir
// now: one that was removed and made again under the same name is another.
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
	// Handles are dropped, not closed: another goroutine may be about to sync
	// one. The runtime closes a file that nobody refers to any more.
	if len(f.dirHandles) >= dirHandlesMax {
		clear(f.dirHandles)
	}
	f.dirHandles[dir] = dirHandle{file: file, info: info}
	return file, nil
}

// Read returns the contents of path. An absent file is an error that wraps
// fs.ErrNotExist.
func (f *OSFiles) Read(op, path string) ([]byte, error) {
	// O_NONBLOCK: a pipe that somebody put there must not hang the reader.
	fd, err := openFile(f.abs(path), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(op, "open", path, err)
	}
	data, err := readAll(fd)
	// Nothing was written through fd: closing it cannot lose anything.
	_ = unix.Close(fd)
	if err != nil {
		return nil, fileError(op, "read", path, err)
	}
	return data, nil
}

// readAll reads as many bytes as the file had when it was opened. That is the whole file: files
// are replaced as a whole, and the journal, which grows, is read only by its writer. So no
// further read is needed to find the end.
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
			break // truncated by a foreign writer meanwhile
		}
		filled += n
	}
	return data[:filled], nil
}

// Rename moves from to to, replacing a file there. Missing parents of to are
// made (mode 0750), durably; the move itself is durable after SyncDir on the
// directories of both. An absent from is an error that wraps fs.ErrNotExist.
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

// renameMakingParents is the rare case: it is the archive's first job in ten
// thousand, or the source is absent.
func (f *OSFiles) renameMakingParents(source, target string) error {
	f.parentsMu.Lock()
	defer f.parentsMu.Unlock()
	var stat unix.Stat_t
	if err := unix.Lstat(source, &stat); err != nil {
		return err
	}
	if err := makeDir(filepath.Dir(target)); err != nil {
		return err
	}
	return unix.Rename(source, target)
}

// Remove removes the file path; that it is absent is no error. The removal is
// durable after SyncDir on its directory.
func (f *OSFiles) Remove(op, path string) error {
	if err := unix.Unlink(f.abs(path)); err != nil && err != unix.ENOENT {
		return fileError(op, "remove", path, err)
	}
	return nil
}

// List returns the base names of all that is in dir, directories and temporary
// files too, sorted bytewise. An absent directory is empty.
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
	_ = file.Close() // read only: nothing to lose
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// systemError strips the path that package os adds to a system error: the caller's
// message names it already, relative to the data directory.
func systemError(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
