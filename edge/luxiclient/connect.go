package luxiclient

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// backlogRetryInterval is the pause before the next attempt to connect to a server whose backlog
// is full.
const backlogRetryInterval = 50 * time.Millisecond

// Connect opens a stream to the unix socket at path, without package net, which
// would be most of what the job process links. The descriptor is non-blocking, so
// os.File waits for it in the runtime's poller and obeys deadlines and Close.
func Connect(ctx context.Context, path string) (*os.File, error) {
	const flags = syscall.SOCK_STREAM | syscall.SOCK_CLOEXEC | syscall.SOCK_NONBLOCK
	fd, err := syscall.Socket(syscall.AF_UNIX, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	if err := connectSocket(ctx, fd, path); err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// connectSocket connects a socket, and waits while the backlog of the server is full. It returns a syscall.Errno, or the context's cause.
func connectSocket(ctx context.Context, fd int, path string) error {
	address := &syscall.SockaddrUnix{Name: path}
	if len(path) > len(syscall.RawSockaddrUnix{}.Path)-1 {
		return syscall.ENAMETOOLONG
	}
	for {
		err := syscall.Connect(fd, address)
		switch err {
		case nil:
			return nil
		case syscall.EINTR:
			continue
		case syscall.EAGAIN: // a unix socket reports a full backlog with it
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(backlogRetryInterval):
		}
	}
}
