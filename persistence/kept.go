package persistence

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// Kept reads what was kept of one stream of a job (--keep-output), over all its opcodes.
type Kept struct {
	files []string // that are still to be opened, in the order of the opcodes
	open  *os.File // nil: none
	skip  int64    // bytes before the offset, from the beginning of files on
}

// OpenKept opens what was kept of a stream of a job, "stdout" or "stderr", from an offset on, which counts the stream's bytes over all
// opcodes. Beyond what was kept, Read returns io.EOF. The error is an [io/fs.ErrNotExist] if no output of the job is kept here. Of a job
// that runs, the reader may miss output that comes after the call.
func OpenKept(dataDir string, job int64, stream string, offset int64) (*Kept, error) {
	dir := filepath.Join(dataDir, paths.KeptDirOf(job))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	type numbered struct {
		op   int64
		path string
	}
	var found []numbered
	for _, e := range entries {
		if op, of, ok := paths.ParseKeptName(e.Name()); ok && of == stream && e.Type().IsRegular() {
			found = append(found, numbered{op, filepath.Join(dir, e.Name())})
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return cmp.Compare(a.op, b.op) })
	k := &Kept{skip: offset}
	for _, f := range found {
		k.files = append(k.files, f.path)
	}
	return k, nil
}

// Read reads the kept output of a stream, from one file after the other. It is part of io.Reader.
func (k *Kept) Read(p []byte) (int, error) {
	for {
		if k.open == nil {
			if len(k.files) == 0 {
				return 0, io.EOF
			}
			if err := k.next(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := k.open.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := k.Close(); err != nil {
			return 0, err
		}
	}
}

// next opens the next file, unless the offset is behind it.
func (k *Kept) next() error {
	file, size, err := openRegular(k.files[0])
	if err != nil {
		return err
	}
	k.files = k.files[1:]
	// The files before the last one have their final size: the next opcode began after them.
	if k.skip >= size && len(k.files) > 0 {
		k.skip -= size
		return file.Close()
	}
	if _, err := file.Seek(k.skip, io.SeekStart); err != nil {
		return errors.Join(err, file.Close())
	}
	k.open, k.skip = file, 0
	return nil
}

// Close closes the open file. It may be called more than once.
func (k *Kept) Close() error {
	if k.open == nil {
		return nil
	}
	file := k.open
	k.open = nil
	return file.Close()
}

// keptPiece is how many names of a directory are read at once.
const keptPiece = 500

// ListKept calls each for every job whose output is kept, with the size of its files in bytes, in no order, until each returns an error,
// which it returns. Without the directory it calls nothing. What is removed meanwhile is left out. It completes removals that a crash has
// cut off.
func ListKept(dataDir string, each func(job, bytes int64) error) error {
	dir, err := os.Open(filepath.Join(dataDir, paths.KeptDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(keptPiece)
		for _, name := range names {
			job, ok := paths.ParseKeptDirName(name)
			if !ok {
				if strings.HasPrefix(name, removedKept) {
					_ = os.RemoveAll(filepath.Join(dir.Name(), name)) // the next call tries again
				}
				continue
			}
			bytes, sizeErr := keptSize(filepath.Join(dataDir, paths.KeptDirOf(job)))
			if errors.Is(sizeErr, fs.ErrNotExist) {
				continue
			}
			if sizeErr != nil {
				return sizeErr
			}
			if err := each(job, bytes); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func keptSize(dir string) (bytes int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		bytes += info.Size()
	}
	return bytes, err
}

// removedKept begins the name of a directory whose removal has begun.
const removedKept = "removed-"

// RemoveKept removes the kept output of a job, if there is some. It renames the directory first, so that no reader takes a part of the
// files for the beginning of the output. After a crash in between, ListKept removes the rest.
func RemoveKept(dataDir string, job int64) error {
	from := filepath.Join(dataDir, paths.KeptDirOf(job))
	to := filepath.Join(filepath.Dir(from), removedKept+filepath.Base(from))
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrExist) { // the rest of a former removal
		err = errors.Join(os.RemoveAll(to), os.Rename(from, to))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.RemoveAll(to))
}

// ForbidKept makes or removes the file that forbids job processes to keep more output. It survives no power loss, and need not.
func ForbidKept(dataDir string, forbidden bool) error {
	path := filepath.Join(dataDir, paths.KeptFullPath)
	if forbidden {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// KeptDiskSize is the size of the file system that has the kept output, in bytes.
func KeptDiskSize(dataDir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(filepath.Join(dataDir, paths.KeptDir), &stat); err != nil {
		return 0, err
	}
	return int64(stat.Blocks) * stat.Bsize, nil
}
