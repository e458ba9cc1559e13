package end

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/jobproc"
)

// TakeReaders takes the readers of a job for its process, until ctx ends: it connects to the daemon at path, again and again, since a
// daemon may end at any time, and calls take with each reader. take owns the connection.
func TakeReaders(ctx context.Context, path string, job int64, take func(Hello, *os.File)) {
	for backoff := jobproc.DaemonBackoff(); ctx.Err() == nil; {
		if c, err := Dial(ctx, path, Hello{Job: job, Writes: true}); err == nil {
			backoff = jobproc.DaemonBackoff()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			_ = takeFrom(c, take) // the daemon has ended
			stop()
			_ = c.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Pause()):
		}
	}
}

// takeFrom takes the readers that come over one connection, until it ends.
func takeFrom(c *os.File, take func(Hello, *os.File)) error {
	line := make([]byte, HelloMax)
	for {
		n, passed, err := Receive(c, line)
		if err != nil {
			return err
		}
		var h Hello
		switch text, complete := bytes.CutSuffix(line[:n], []byte("\n")); {
		case passed == nil:
			return errors.New("the daemon sent no reader")
		case !complete || json.Unmarshal(text, &h) != nil: // the daemon sends a line at once, and the kernel joins none with another's descriptor
			return errors.Join(fmt.Errorf("the daemon sent %q", line[:n]), passed.Close())
		}
		take(h, passed)
	}
}

// Rest makes a file of memory, without a name. It lives as long as a descriptor of it, also one that is on its way.
func Rest() (*os.File, error) {
	fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "output"), nil
}
