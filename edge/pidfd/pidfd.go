// Package pidfd refers to processes of this machine by descriptor. The kernel can give the
// number of an ended process to a new one; a pidfd always means the process that it was
// opened for. A wait for the end of a process costs a goroutine in the runtime's poller
// and no thread.
//
// A Process owns its descriptor until Close. The descriptors end with the daemon.
package pidfd

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process identifies a process beyond its end, when another process may have its pid. Its methods may be called from several goroutines
// at once.
type Process struct {
	file  *os.File
	woken atomic.Bool // by Wake, since the last EndsWithin returned
}

// Open opens a pidfd of the process that has the pid now. The error is about a process that has ended, too.
func Open(pid int) (*Process, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("watch process %d: no such number", pid)
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	return newProcess(fd, pid), nil
}

// FromDescriptor takes ownership of a pidfd. On an error it closes the descriptor.
func FromDescriptor(fd, pid int) (*Process, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("watch process %d: %w", pid, err), unix.Close(fd))
	}
	return newProcess(fd, pid), nil
}

// newProcess wraps a pidfd. The descriptor is non-blocking, so that the runtime's poller waits
// for it.
func newProcess(fd, pid int) *Process {
	return &Process{file: os.NewFile(uintptr(fd), fmt.Sprintf("pidfd:%d", pid))}
}

// Close closes the descriptor, and ends all waits for the process.
func (p *Process) Close() error { return p.file.Close() }

// AwaitEnd waits until the process has ended, and returns true, or until p is closed. It does not
// reap.
func (p *Process) AwaitEnd() bool {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	_ = conn.Read(func(fd uintptr) bool {
		ended = readable(fd)
		return ended
	})
	return ended
}

// EndsWithin reports whether the process ends within d, or before Wake is called. Only one goroutine at a time may call it.
func (p *Process) EndsWithin(d time.Duration) bool {
	if err := p.file.SetReadDeadline(time.Now().Add(d)); err != nil || p.woken.Swap(false) {
		return p.Ended()
	}
	defer func() { _ = p.file.SetReadDeadline(time.Time{}) }()
	return p.AwaitEnd()
}

// Wake lets EndsWithin return now: the call that waits, else the next one.
func (p *Process) Wake() {
	p.woken.Store(true) // first: a call that sets its deadline after the next line sees it
	_ = p.file.SetReadDeadline(time.Unix(1, 0))
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	_ = conn.Control(func(fd uintptr) { ended = readable(fd) })
	return ended
}

// Signal signals this process. After its end it returns an error, and no other process gets the
// signal.
func (p *Process) Signal(signal syscall.Signal) error {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), signal, nil, 0) }); err != nil {
		return err
	}
	return sent
}

// readable reports whether a pidfd is readable, as it is once its process has ended.
func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
