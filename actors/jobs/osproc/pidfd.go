package osproc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollable makes a file of a pidfd that the runtime's poller watches: to wait
// for a process then costs no thread.
func pollable(pidfd, pid int) (*os.File, error) {
	if pidfd < 0 {
		fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
		if err != nil {
			return nil, fmt.Errorf("watch process %d: %w", pid, err)
		}
		pidfd = fd
	} else if err := unix.SetNonblock(pidfd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("watch process %d: %w", pid, err), unix.Close(pidfd))
	}
	return os.NewFile(uintptr(pidfd), fmt.Sprintf("pidfd:%d", pid)), nil
}

// awaitExit returns when the process has ended. It does not reap it.
func awaitExit(pidfd *os.File) { waitReadable(pidfd) }

// exited waits for at most d and reports whether the process has ended.
func exited(pidfd *os.File, d time.Duration) bool {
	if err := pidfd.SetReadDeadline(time.Now().Add(d)); err != nil {
		return readable(pidfd)
	}
	defer func() { _ = pidfd.SetReadDeadline(time.Time{}) }()
	return waitReadable(pidfd)
}

// waitReadable: a pidfd becomes readable when its process ends.
func waitReadable(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	over := false
	_ = conn.Read(func(fd uintptr) bool {
		over = ready(fd)
		return over
	})
	return over
}

func readable(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	over := false
	_ = conn.Control(func(fd uintptr) { over = ready(fd) })
	return over
}

func ready(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// sendSignal signals the process that the pidfd stands for, and never one that
// has come to use its number since.
func sendSignal(pidfd *os.File, signal syscall.Signal) error {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), signal, nil, 0) }); err != nil {
		return err
	}
	return sent
}

// inOrder is how a job process ends that has written its job's end.
const inOrder = "exit status 0"

func ended(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "ended by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
