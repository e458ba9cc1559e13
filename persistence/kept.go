package persistence

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// Growing is the size of a file that a process may write.
const Growing = -1

// Kept reads what was kept of one stream of a job (--keep-output), over all its opcodes.
type Kept struct {
	dir    string
	stream string
	op     int     // of sizes[0]
	sizes  []int64 // of the files that are still to be opened
	skip   int64   // bytes before the offset, from the beginning of these files on
	marked bool    // the directory has the mark of the job

	open    *os.File // nil: none
	left    int64    // how much of it may be read, in bytes
	growing bool     // so left is no promise
}

// OpenKept opens what was kept of a stream of a job, "stdout" or "stderr", from an offset on, which counts the stream's bytes over all
// opcodes. mark is the content of [paths.KeptMark] that the directory of this job has; sizes is what the job says of each opcode's file, in
// bytes. At the end of what was kept, and where a file is missing or is not the job's, Read returns io.EOF. The error is an
// [io/fs.ErrNotExist] if no output of the job is kept here. Of a job that runs, the reader may miss output that comes after the call.
func OpenKept(dataDir string, job int64, mark, stream string, sizes []int64, offset int64) (*Kept, error) {
	k := &Kept{dir: filepath.Join(dataDir, paths.KeptDirOf(job)), stream: stream, skip: offset}
	content, err := os.ReadFile(filepath.Join(k.dir, paths.KeptMark))
	k.marked = err == nil && string(content) == mark
	if !k.marked && !errors.Is(err, fs.ErrNotExist) {
		return nil, cmp.Or(err, error(&fs.PathError{Op: "open", Path: k.dir, Err: fs.ErrNotExist}))
	}
	entries, err := os.ReadDir(k.dir)
	for _, e := range entries {
		// What comes after the last file of now is left out: its beginning would be taken for output of the one before, which still grows.
		if op, of, ok := paths.ParseKeptName(e.Name()); ok && of == stream && op < int64(len(sizes)) && e.Type().IsRegular() {
			k.sizes = sizes[:max(len(k.sizes), int(op)+1)]
		}
	}
	return k, err
}

// Read reads the kept output of a stream, from one file after the other. It is part of io.Reader.
func (k *Kept) Read(p []byte) (int, error) {
	for {
		if k.open == nil {
			if len(k.sizes) == 0 {
				return 0, io.EOF
			}
			if err := k.next(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := k.open.Read(p[:min(int64(len(p)), k.left)])
		if k.left -= int64(n); n > 0 || k.left > 0 && !errors.Is(err, io.EOF) {
			return n, err
		}
		if k.left > 0 && !k.growing {
			k.sizes = nil // it has become shorter
		}
		if err := k.Close(); err != nil {
			return 0, err
		}
	}
}

// next opens the next file, unless the offset is behind it, or there is no file.
func (k *Kept) next() error {
	size, name := k.sizes[0], paths.KeptName(k.op, k.stream)
	k.sizes, k.op = k.sizes[1:], k.op+1
	if size != Growing && k.skip >= size {
		k.skip -= size
		return nil
	}
	file, info, err := openRegular(filepath.Join(k.dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && size == Growing: // there was no output
		return nil
	case errors.Is(err, fs.ErrNotExist):
		k.sizes = nil
		return nil
	case err != nil:
		return err
	case size == Growing && !k.marked, size != Growing && info.Size() != size: // it is another job's, or cannot be told from it
		k.sizes = nil
		return file.Close()
	case k.skip >= info.Size() && len(k.sizes) > 0: // of an opcode that has ended: the next one began after it
		k.skip -= info.Size()
		return file.Close()
	}
	if _, err := file.Seek(k.skip, io.SeekStart); err != nil {
		return errors.Join(err, file.Close())
	}
	k.open, k.growing, k.left = file, size == Growing, size-k.skip
	if k.growing {
		k.left = math.MaxInt64
	}
	k.skip = 0
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
