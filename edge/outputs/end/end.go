// Package end is the two ends of a connection on which a reader gets the output of a job: the reader's, and that of the job's
// process. Package outflow has the frames on it and decides what is sent; package outputs brings the ends together.
//
// The connection is a stream of frames. At the end of the job its process leaves the rest in a file of memory, so that it need not wait
// for a slow reader: the file has what comes after the end of the connection. Its descriptor comes with the first bytes, because at the end
// the connection may have no room.
//
// Nothing of it survives a crash: a reader whose connection ends without the frame of the end connects again, with its place.
// lockstep-job links the package, so it avoids package net.
package end

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"lockstep/core/outflow"
	"lockstep/edge/luxiclient"
)

// HelloMax bounds the first line of a connection, in bytes.
const HelloMax = 512

// Hello is the first line of a connection to the daemon, as JSON.
type Hello struct {
	Job int64 `json:"job"`
	// Writes: this is the process of the job, which takes readers. It sends nothing more; the daemon sends it the Hello of each reader, as a
	// line that comes with the descriptor of the reader's connection.
	Writes bool `json:"writes,omitempty"`
	// At is what the reader has already.
	At outflow.Position `json:"at"`
	// Follows: the reader has submitted the job, and the command waits for it.
	Follows bool `json:"follows,omitempty"`
	// Relayed: a daemon reads for a client elsewhere.
	Relayed bool `json:"relayed,omitempty"`
	// Kept asks for output from the files of --keep-output instead, also after the end of the job.
	Kept *Kept `json:"kept,omitempty"`
}

// Kept is a part of one stream in the files of a job. The daemon sends what there is of it, as frames whose places count this stream only,
// and an end with the place where it stops. Such a reader acknowledges nothing.
type Kept = outflow.Part

// Line is the first line of a connection.
func (h Hello) Line() []byte {
	line, err := json.Marshal(h)
	if err != nil { // numbers and booleans
		panic(err)
	}
	return append(line, '\n')
}

// Dial connects to the daemon's socket for output, and says hello.
func Dial(ctx context.Context, path string, h Hello) (*os.File, error) {
	c, err := luxiclient.Connect(ctx, path)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(h.Line()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Receive reads bytes of a unix socket, and a descriptor if one comes with them; nil: none does.
func Receive(c *os.File, into []byte) (n int, passed *os.File, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	control := make([]byte, unix.CmsgSpace(4))
	var controls int
	readErr := raw.Read(func(fd uintptr) bool {
		for {
			n, controls, _, _, err = unix.Recvmsg(int(fd), into, control, unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	switch {
	case readErr != nil:
		return 0, nil, readErr
	case err != nil:
		return 0, nil, os.NewSyscallError("recvmsg", err)
	case n == 0:
		return 0, nil, io.EOF
	case controls == 0:
		return n, nil, nil
	}
	passed, err = fileOf(control[:controls])
	return n, passed, err
}

// fileOf is the file of the one descriptor of a control message. Of more it takes none.
func fileOf(control []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	var fds []int
	for i := 0; err == nil && i < len(messages); i++ {
		var some []int
		some, err = unix.ParseUnixRights(&messages[i])
		fds = append(fds, some...)
	}
	if err == nil && len(fds) != 1 {
		err = fmt.Errorf("%d descriptors came at once", len(fds))
	}
	if err == nil {
		err = unix.SetNonblock(fds[0], true)
	}
	if err == nil {
		return os.NewFile(uintptr(fds[0]), "passed"), nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return nil, fmt.Errorf("read a control message: %w", err)
}

// Send sends bytes with a descriptor. n is how many were sent; with none, the descriptor was not.
func Send(c *os.File, b []byte, passed *os.File) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	rawPassed, err := passed.SyscallConn()
	if err != nil {
		return 0, err
	}
	var passedErr error
	writeErr := raw.Write(func(fd uintptr) bool {
		// Under Control no other goroutine can close the file, whose number could then be that of another one.
		passedErr = rawPassed.Control(func(passedFd uintptr) { n, err = sendOnce(int(fd), int(passedFd), b) })
		return passedErr != nil || !errors.Is(err, unix.EAGAIN)
	})
	if err = errors.Join(writeErr, passedErr, os.NewSyscallError("sendmsg", err)); err != nil {
		return 0, err
	}
	return n, nil
}

func sendOnce(fd, passed int, b []byte) (n int, err error) {
	for {
		if n, err = unix.SendmsgN(fd, b, unix.UnixRights(passed), nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
