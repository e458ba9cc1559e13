package persistence

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Append adds content to the end of path, which is made if it is absent; its
// directory must exist. It is for the journal of the locks, and syncs nothing:
// what is appended survives the end of the process, not that of the machine. The
// owners of locks are processes, so that no lock is worth anything after power
// loss (design.md 7).
//
// It is one write(2), behind all that others have written: a reader sees it
// whole or not at all, unless there is an error. Then a part of content may be
// there, which stays: another process may have appended meanwhile. Who appends
// must put a whole file in its place, by Replace, before going on.
func (f *OSFiles) Append(op, path string, content []byte) error {
	if step, err := appendTo(f.abs(path), content); err != nil {
		return fileError(op, step, path, err)
	}
	return nil
}

func appendTo(name string, content []byte) (step string, err error) {
	// O_NONBLOCK: a pipe that somebody put there must not hang the writer.
	fd, err := openFile(name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NONBLOCK, fileMode)
	if err != nil {
		return "open", err
	}
	step, err = appendOnce(fd, content)
	if closeErr := unix.Close(fd); err == nil && closeErr != nil {
		// Network file systems report a lost write here.
		step, err = "close", closeErr
	}
	return step, err
}

func appendOnce(fd int, content []byte) (step string, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return "examine", err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return "append to", errors.New("not a regular file")
	}
	if stat.Size == 0 && stat.Mode&0o777 != fileMode {
		// Just made, and the umask has had its say.
		if err := unix.Fchmod(fd, fileMode); err != nil {
			return "chmod", err
		}
	}
	if len(content) == 0 {
		return "", nil
	}
	var n int
	if err := retryInterrupted(func() (err error) { n, err = unix.Write(fd, content); return err }); err != nil {
		return "append to", err
	}
	if n < len(content) {
		// The rest is not tried: it would not be one write any more, and most
		// likely the disk is full.
		return "append to", fmt.Errorf("%w: %d of %d bytes", io.ErrShortWrite, n, len(content))
	}
	return "", nil
}
