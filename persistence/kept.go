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

// KeptFiles are what one process of a job has kept of a stream: a file for each opcode.
type KeptFiles struct {
	Stream string  // "stdout" or "stderr"
	Op     int     // index of the first opcode
	Try    int     // number of the try of the first opcode, from 1; that of all others is 1
	Sizes  []int64 // what the job says of each file, in bytes, or Growing
}

// next removes the first file, whose name and size it returns.
func (f *KeptFiles) next() (name string, size int64) {
	name, size = paths.KeptName(f.Op, f.Try, f.Stream), f.Sizes[0]
	f.Op, f.Try, f.Sizes = f.Op+1, 1, f.Sizes[1:]
	return name, size
}

// upTo is how many of the files there are up to one with a name, from the first on; 0: the name is not one of theirs.
func (f *KeptFiles) upTo(name string) int {
	op, try, stream, ok := paths.ParseKeptName(name)
	first := op == f.Op && try == max(f.Try, 1)
	if !ok || stream != f.Stream || !first && (op <= f.Op || try != 1) || op-f.Op >= len(f.Sizes) {
		return 0
	}
	return op - f.Op + 1
}

// Kept reads what one process of a job has kept of one stream (--keep-output), over all its opcodes.
type Kept struct {
	dir    string
	files  KeptFiles // that are still to be opened
	skip   int64     // bytes before the offset, from the beginning of these files on
	marked bool      // the directory has the mark of the job

	open    *os.File // nil: none
	left    int64    // how much of it may be read, in bytes
	growing bool     // so left is no promise
}

// OpenKept opens kept files of a job from an offset on, which counts the bytes of all of them. mark is the content of [paths.KeptMark] that
// the directory of this job has. At the end of what was kept, and where a file is missing or is not the job's, Read returns io.EOF. The
// error is an [io/fs.ErrNotExist] if no output of the job is kept here. Of a job that runs, the reader may miss output that comes after the
// call.
func OpenKept(dataDir string, job int64, mark string, files KeptFiles, offset int64) (*Kept, error) {
	k := &Kept{dir: filepath.Join(dataDir, paths.KeptDirOf(job)), files: files, skip: offset}
	content, err := os.ReadFile(filepath.Join(k.dir, paths.KeptMark))
	k.marked = err == nil && string(content) == mark
	if !k.marked && !errors.Is(err, fs.ErrNotExist) {
		return nil, cmp.Or(err, error(&fs.PathError{Op: "open", Path: k.dir, Err: fs.ErrNotExist}))
	}
	entries, err := os.ReadDir(k.dir)
	there := 0
	for _, e := range entries {
		// What comes after the last file of now is left out: its beginning would be taken for output of the one before, which still grows.
		if e.Type().IsRegular() {
			there = max(there, files.upTo(e.Name()))
		}
	}
	k.files.Sizes = files.Sizes[:there]
	return k, err
}

// Read reads the kept output of a stream, from one file after the other. It is part of io.Reader.
func (k *Kept) Read(p []byte) (int, error) {
	for {
		if k.open == nil {
			if len(k.files.Sizes) == 0 {
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
			k.files.Sizes = nil // it has become shorter
		}
		if err := k.Close(); err != nil {
			return 0, err
		}
	}
}

// next opens the next file, unless the offset is behind it, or there is no file.
func (k *Kept) next() error {
	name, size := k.files.next()
	if size != Growing && k.skip >= size {
		k.skip -= size
		return nil
	}
	file, info, err := openRegular(filepath.Join(k.dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && size == Growing: // there was no output
		return nil
	case errors.Is(err, fs.ErrNotExist):
		k.files.Sizes = nil
		return nil
	case err != nil:
		return err
	case size == Growing && !k.marked, size != Growing && info.Size() != size: // it is another job's, or cannot be told from it
		k.files.Sizes = nil
		return file.Close()
	case k.skip >= info.Size() && len(k.files.Sizes) > 0: // of an opcode that has ended: the next one began after it
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

// KeepOnly removes from the kept output of a job what keeps does not name, by opcode and number of the try, as files of a later try after
// an older copy of the data directory was put back. Without the mark of the job it removes everything. It returns the size of the output
// that stays.
func KeepOnly(dataDir string, job int64, mark string, keeps func(op, try int) bool) (bytes int64, err error) {
	dir := filepath.Join(dataDir, paths.KeptDirOf(job))
	switch content, err := os.ReadFile(filepath.Join(dir, paths.KeptMark)); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return 0, err
	case err != nil || string(content) != mark:
		return 0, RemoveKept(dataDir, job)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		op, try, _, ok := paths.ParseKeptName(e.Name())
		switch {
		case !ok:
		case keeps(op, try):
			info, err := e.Info()
			if err != nil {
				return 0, err
			}
			bytes += info.Size()
		default:
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return 0, err
			}
		}
	}
	return bytes, nil
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
