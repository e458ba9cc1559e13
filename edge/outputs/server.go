// Package outputs brings the readers of a job's output together with the job's process.
//
// A reader connects to the daemon's socket and names a job. The process of a job connects, too, when it has written more than its log
// surely keeps. The daemon passes the connection of each reader to the process (SCM_RIGHTS), and has no part in what follows: the bytes
// pass no actor, and the daemon may end. Package end is the two ends; package outflow decides what is sent.
//
// A reader that comes before its process waits here. Nothing of it survives a crash: both sides connect again.
package outputs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"lockstep/core/budget"
	"lockstep/core/ownership"
	"lockstep/edge/admission"
	"lockstep/edge/outputs/end"
	"lockstep/edge/socket"
)

const (
	// helloTimeout is how long a connection may take to say hello, and a process to take a reader.
	helloTimeout = 5 * time.Second
	// connectionsMax bounds the connections that are open at a time: readers that wait, and processes. They are shared by user (core/budget).
	connectionsMax = 1000
)

// Server is the daemon's socket for output.
type Server struct {
	listener net.Listener
	log      *logrus.Logger
	slots    *admission.Slots
	serving  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[*connection]bool
	jobs   map[int64]*meeting // those with a process or a reader
}

// meeting is what is connected for one job.
type meeting struct {
	process *connection // nil: it has not come
	readers []*connection
}

// connection is a reader that waits, or a process. Its goroutine reads it until it ends or is passed on.
type connection struct {
	*net.UnixConn
	hello  end.Hello
	passed bool          // it is being passed on, and closed then; guarded by Server.mu
	read   chan struct{} // closed when its goroutine reads no more
}

// Listen listens at a path.
func Listen(path string, owner ownership.Attributes, log *logrus.Logger) (*Server, error) {
	l, err := socket.ListenUnix(path, owner)
	if err != nil {
		return nil, err
	}
	return &Server{listener: l, log: log, slots: admission.NewSlots(connectionsMax), open: map[*connection]bool{}, jobs: map[int64]*meeting{}}, nil
}

// Serve accepts connections until Close.
func (s *Server) Serve() error {
	for {
		accepted, err := s.listener.Accept()
		switch local, isUnix := accepted.(*net.UnixConn); {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			time.Sleep(50 * time.Millisecond) // too many open files
		case isUnix:
			s.serving.Go(func() { s.serve(&connection{UnixConn: local, read: make(chan struct{})}) })
		}
	}
}

// Close ends all connections, and returns when none is left. Readers that were passed to their process go on.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.UnixConn.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
	return err
}

// serve serves one connection until it has ended, or is passed on.
func (s *Server) serve(c *connection) {
	slot := s.slots.Admit(clientOf(c.UnixConn), func() { _ = c.UnixConn.Close() })
	if slot == nil {
		_ = c.UnixConn.Close()
		return
	}
	defer slot.Close()
	s.add(c)
	defer s.remove(c)
	err := c.sayHello()
	if err == nil && c.hello.Writes {
		err = c.mayWrite()
	}
	if err != nil {
		close(c.read)
		s.log.WithField("err", err).Debug("a connection for output was refused")
		return
	}
	slot.Move(budget.Idle)
	s.meet(c)
	_, _ = io.ReadFull(c.UnixConn, make([]byte, 1)) // neither a process nor a reader that waits sends anything
	close(c.read)
}

func (s *Server) add(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[c] = true; s.closed {
		_ = c.UnixConn.Close()
	}
}

// remove forgets a connection, and closes it unless it is being passed on.
func (s *Server) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if c.passed {
		return
	}
	_ = c.UnixConn.Close()
	m := s.jobs[c.hello.Job]
	if m == nil {
		return
	}
	if m.process == c {
		m.process = nil
	}
	m.drop(c)
	if m.process == nil && len(m.readers) == 0 {
		delete(s.jobs, c.hello.Job)
	}
}

func (m *meeting) drop(c *connection) {
	for i, r := range m.readers {
		if r == c {
			m.readers = append(m.readers[:i], m.readers[i+1:]...)
			return
		}
	}
}

// meet adds a connection to its job, and passes the readers that wait to the process.
func (s *Server) meet(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.jobs[c.hello.Job]
	if m == nil {
		m = &meeting{}
		s.jobs[c.hello.Job] = m
	}
	if c.hello.Writes {
		m.process = c // a former connection of it has ended, or will
	} else {
		m.readers = append(m.readers, c)
	}
	if m.process == nil {
		return
	}
	process, readers := m.process, m.readers
	m.readers = nil
	for _, r := range readers {
		r.passed = true
	}
	s.serving.Go(func() {
		for _, r := range readers {
			if err := pass(r, process); err != nil {
				s.log.WithFields(logrus.Fields{"job": r.hello.Job, "err": err}).Warn("a reader of output could not be passed to the job's process; it connects again")
			}
		}
	})
}

// pass passes a reader to the process of its job, and closes this process's descriptor of it.
func pass(reader, process *connection) error {
	_ = reader.SetReadDeadline(time.Unix(1, 0))
	<-reader.read // from here on nobody here takes what the reader sends
	defer reader.UnixConn.Close()
	file, err := reader.File()
	if err != nil {
		return err
	}
	defer file.Close()
	if err := process.SetWriteDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	_, _, err = process.WriteMsgUnix(reader.hello.Line(), unix.UnixRights(int(file.Fd())), nil)
	return err
}

// sayHello reads the first line, and no byte after it.
func (c *connection) sayHello() error {
	if err := c.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	line := make([]byte, 0, end.HelloMax)
	for len(line) < end.HelloMax {
		if _, err := io.ReadFull(c.UnixConn, line[len(line):len(line)+1]); err != nil {
			return err
		}
		if line = line[:len(line)+1]; line[len(line)-1] == '\n' {
			if err := json.Unmarshal(line, &c.hello); err != nil {
				return fmt.Errorf("decode the first line: %w", err)
			}
			return c.SetReadDeadline(time.Time{})
		}
	}
	return fmt.Errorf("the first line has more than %d bytes", end.HelloMax)
}

// mayWrite checks that the client can be the process of a job: it has the daemon's user. Who has that can do all that the daemon can.
func (c *connection) mayWrite() error {
	if uid, known := socket.PeerUID(c.UnixConn); !known || uid != os.Geteuid() {
		return errors.New("a process of another user is no job process")
	}
	return nil
}

func clientOf(c *net.UnixConn) budget.Client {
	uid, _ := socket.PeerUID(c)
	return admission.UID(uid)
}
