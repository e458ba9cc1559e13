package persistence

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

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

// Read is part of io.Reader.
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
	file, err := os.Open(k.files[0])
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	k.files = k.files[1:]
	// The files before the last one have their final size: the next opcode began after them.
	if k.skip >= info.Size() && len(k.files) > 0 {
		k.skip -= info.Size()
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
