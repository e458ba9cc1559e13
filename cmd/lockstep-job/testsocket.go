package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// testSocket is a unix socket on which a test opcode waits for a client (queue.md 8.4). It uses
// bare descriptors, because package net would cost each job process more than all of its other
// code.
type testSocket struct {
	dir  string
	path string
	fd   int
}

// newTestSocket listens in a new directory. Only this user may connect.
func newTestSocket() (*testSocket, error) {
	dir, err := os.MkdirTemp("", "lockstep-")
	if err != nil {
		return nil, err
	}
	b := &testSocket{dir: dir, path: filepath.Join(dir, "sock")}
	b.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = unix.Bind(b.fd, &unix.SockaddrUnix{Name: b.path})
	if err == nil {
		err = unix.Listen(b.fd, 1)
	}
	if err != nil {
		b.remove()
		return nil, fmt.Errorf("listen on %s: %w", b.path, err)
	}
	return b, nil
}

// remove closes the socket and removes its directory.
func (b *testSocket) remove() {
	_ = unix.Close(b.fd)
	_ = os.RemoveAll(b.dir)
}

// Errors of a wait for a descriptor.
var (
	errTimeout = errors.New("time-out")
	errKilled  = errors.New("ended on request")
)

// acceptClient waits for a connection, at most for d, and returns its descriptor. The error is errTimeout, or errKilled.
func (b *testSocket) acceptClient(d time.Duration, killed <-chan struct{}) (fd int, err error) {
	if err := awaitReadable(b.fd, d, killed); err != nil {
		return -1, err
	}
	fd, _, err = unix.Accept4(b.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	return fd, err
}

// pollInterval bounds one poll of a descriptor: between polls the end of the opcode is checked.
const pollInterval = 100 * time.Millisecond

// awaitReadable returns nil when a descriptor is readable or at its end. The error is errTimeout after d, or errKilled once killed is
// closed.
func awaitReadable(fd int, d time.Duration, killed <-chan struct{}) error {
	for end := time.Now().Add(d); ; {
		select {
		case <-killed:
			return errKilled
		default:
		}
		remaining := time.Until(end)
		if remaining <= 0 {
			return errTimeout
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(min(remaining, pollInterval)/time.Millisecond)+1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n > 0:
			return nil
		}
	}
}

// notifyClient tells a client the path of a socket, by a log entry, and waits until the client
// has connected and disconnected.
func (x *execution) notifyClient(test string, arg any) error {
	const connectMax, confirmMax = 20 * time.Second, 60 * time.Second
	socket, err := newTestSocket()
	if err != nil {
		return err
	}
	payload, err := json.Marshal([]any{socket.path, test, arg})
	if err != nil {
		socket.remove()
		return err
	}
	x.log("jqueue-test", payload)
	fd, err := socket.acceptClient(connectMax, x.killed)
	socket.remove()
	if err != nil {
		return fmt.Errorf("no client connected within %v: %w", connectMax, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := awaitReadable(fd, confirmMax, x.killed); err != nil {
		return fmt.Errorf("the client did not confirm within %v: %w", confirmMax, err)
	}
	return nil
}
