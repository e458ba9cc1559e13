package persistence

import (
	"errors"
	"fmt"
	"io"
	gopath "path"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// Append adds content to the end of path, which is created if it is absent, with the user, group
// and mode of the rules; its directory must exist. It is for the journal of the locks, and syncs
// nothing: the content survives the end of the process, but no power loss. After a power loss all
// owners of locks are dead, so no lock is valid (design.md "Journal").
//
// Append makes one write(2) at the end of the file: a reader sees the content whole or not at
// all. After an error a part of the content may be in the file, and stays there, because another
// process may have appended since. The caller must then replace the whole file with Replace.
func (f *OSFiles) Append(op, path string, content []byte) error {
	write := func(fd int, stat unix.Stat_t) (step string, err error) { return appendOnce(fd, stat, content) }
	if step, err := appendTo(f.abs(path), f.owners.DataFile(path), write); err != nil {
		return fileError(op, step, path, err)
	}
	return nil
}

// AppendDurable is Append for what must survive a power loss: it syncs the content, and the
// directory if the file was absent or empty, or the content is empty. It is for the journal of the configuration, which has one writer.
//
// If the disk has no room for the whole content, the file is as it was, durably, and the error is an [*UnchangedError]. After
// another error, as that of a sync, the content of the file is unknown: the caller must replace the whole file.
func (f *OSFiles) AppendDurable(op, path string, content []byte) error {
	isNew, step, err := appendSynced(f.abs(path), content, f.owners.DataFile(path))
	if err != nil {
		return fileError(op, step, path, err)
	}
	if isNew || len(content) == 0 {
		return f.SyncDir(op, gopath.Dir(path))
	}
	return nil
}

// UnchangedError is the error of an append that has left the file as it was, durably.
type UnchangedError struct{ Err error }

func (e *UnchangedError) Error() string { return e.Err.Error() }
func (e *UnchangedError) Unwrap() error { return e.Err }

// Unchanged reports that the file has its former content, which is always so.
func (*UnchangedError) Unchanged() bool { return true }

func appendSynced(name string, content []byte, a ownership.Attributes) (isNew bool, step string, err error) {
	var stat unix.Stat_t
	err = unix.Stat(name, &stat)
	isNew = err != nil || stat.Size == 0 // an error that persists is that of the append
	step, err = appendTo(name, a, func(fd int, stat unix.Stat_t) (string, error) {
		step, err := appendOnce(fd, stat, content)
		if err != nil {
			// The file may have a part of the content, which a later append would continue.
			return step, takeBack(fd, stat, err)
		}
		return "sync", syncData(fd)
	})
	return isNew, step, err
}

// takeBack removes what a failed append has written. It returns the error of the append, as an *UnchangedError if the file is as it was.
func takeBack(fd int, stat unix.Stat_t, err error) error {
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	if retryInterrupted(func() error { return unix.Ftruncate(fd, stat.Size) }) != nil || syncData(fd) != nil {
		return err
	}
	return &UnchangedError{err}
}

func syncData(fd int) error { return retryInterrupted(func() error { return unix.Fdatasync(fd) }) }

// appendTo opens a file for write, which returns the name of a step that has failed.
func appendTo(name string, a ownership.Attributes, write func(fd int, stat unix.Stat_t) (step string, err error)) (step string, err error) {
	// O_NONBLOCK: opening a pipe with this name must not hang.
	fd, stat, step, err := openOrCreate(name, unix.O_WRONLY|unix.O_APPEND|unix.O_NONBLOCK, a)
	if err != nil {
		return step, err
	}
	step, err = write(fd, stat)
	if closeErr := unix.Close(fd); err == nil && closeErr != nil {
		// Network file systems report a lost write here.
		step, err = "close", closeErr
	}
	return step, err
}

func appendOnce(fd int, stat unix.Stat_t, content []byte) (step string, err error) {
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return "append to", errors.New("not a regular file")
	}
	if len(content) == 0 {
		return "", nil
	}
	var n int
	if err := retryInterrupted(func() (err error) { n, err = unix.Write(fd, content); return err }); err != nil {
		return "append to", err
	}
	if n < len(content) {
		// No second write for the rest: a reader could see a part. Most likely the disk is full.
		return "append to", fmt.Errorf("%w: %d of %d bytes", io.ErrShortWrite, n, len(content))
	}
	return "", nil
}
