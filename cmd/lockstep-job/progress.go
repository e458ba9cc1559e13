package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"lockstep/core/jobproc"
	"lockstep/core/progress"
	"lockstep/persistence"
)

// progressPipe is the pipe in which a command says its progress. It is a FIFO in the run directory, whose path is in the environment of
// the command. A descriptor that the command inherits would be lost in programs that close those they do not know, such as sudo and
// children of Python.
//
// The pipe is open for reading and writing until the end of the command, so that no writer waits for a reader and none is the last one.
type progressPipe struct {
	path string
	file *os.File
	read chan struct{} // closed when no more is read
}

// openProgressPipe makes the pipe, in place of one that a killed process has left. It belongs to the account; nil: to the daemon's user.
// said gets each line that is the latest in what was read at once. It must not block.
func openProgressPipe(path string, account *jobproc.Account, said func(progress.Line)) (*progressPipe, error) {
	if err := persistence.RemoveProgress(path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	var file *os.File
	err := unix.Mkfifo(path, 0o600)
	if err == nil {
		file, err = os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	}
	if err == nil && account != nil {
		err = giveToAccount(file, filepath.Dir(path), account)
	}
	if err != nil {
		_ = file.Close() // nil: it fails
		return nil, errors.Join(&fs.PathError{Op: "mkfifo", Path: path, Err: err}, persistence.RemoveProgress(path))
	}
	p := &progressPipe{path: path, file: file, read: make(chan struct{})}
	go func() {
		defer close(p.read)
		var lines progress.Reader
		buffer := make([]byte, 16<<10)
		for {
			n, err := file.Read(buffer)
			if l, ok := lines.Read(buffer[:n]); ok {
				said(l)
			}
			if err != nil {
				return // close
			}
		}
	}()
	return p, nil
}

// close removes the pipe. After its return the pipe calls said no more.
func (p *progressPipe) close() {
	_ = persistence.RemoveProgress(p.path)
	_ = p.file.Close()
	<-p.read
}

// openProgress makes the pipe of the opcode's command. Without it the command runs, and the log says so.
func (x *execution) openProgress(complain func(string)) (end func()) {
	pipe, err := openProgressPipe(x.progressPath, x.account, x.progressed)
	if err != nil {
		complain(fmt.Sprintf("the command cannot say its progress: %v", err))
		return func() {}
	}
	return pipe.close
}

// giveToAccount lets the account write to a pipe, and reach it in a directory in which it can make no file.
func giveToAccount(pipe *os.File, dir string, account *jobproc.Account) error {
	if err := pipe.Chown(account.UID, account.GID); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711) //nolint:gosec // others look up the name of the pipe, and no more
}
