// Package outputs brings the readers of a job's output together with the job's process.
//
// A reader connects to the daemon's socket and names a job. The process of a job connects, too, when it has written more than its log
// surely keeps. The daemon passes the connection of each reader to the process (SCM_RIGHTS), and has no part in what follows: the bytes
// pass no actor, and the daemon may end. Package end is the two ends; package outflow decides what is sent.
//
// A reader that comes before its process waits here. One that asks for kept output gets it from the files of --keep-output (kept.go). On a
// node that is not the master, the bytes between readers and the master are copied (nodes.go).
//
// Nothing of it survives a crash: both sides connect again.
package outputs

import (
	"context"
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
	"lockstep/edge/ratelog"
	"lockstep/edge/socket"
)

const (
	// helloTimeout is how long a connection may take to say hello, and a process to take a reader.
	helloTimeout = 5 * time.Second
	// connectionsMax bounds the connections that are open at a time: readers that wait, and processes. They are shared by user (core/budget).
	connectionsMax = 1000
)

// Config has the files and the nodes of a server.
type Config struct {
	Log   *logrus.Logger
	Kept  Keeper // nil: nothing is kept
	Nodes Nodes  // nil: this node belongs to no cluster
}

// Server is the daemon's socket for output.
type Server struct {
	listener net.Listener
	log      *logrus.Logger
	kept     Keeper
	nodes    Nodes
	slots    *admission.Slots
	far      *admission.Slots // of connections to other nodes
	unasked  *ratelog.Log     // nodes that could not be asked for kept output
	serving  sync.WaitGroup
	stopping context.Context // ended by Close
	stop     context.CancelFunc

	mu        sync.Mutex
	closed    bool
	open      map[*connection]bool
	jobs      map[int64]*meeting  // those with a process or a reader
	forwarded map[net.Conn]string // connections of other nodes, with the names of these
	keptAt    map[int64]string    // the node from which kept output of a job came last, of some jobs
}

// meeting is what is connected for one job.
type meeting struct {
	process *connection // nil: it has not come
	readers []*connection
}

// connection is a reader that waits, or a process. Its goroutine reads it until it ends or is passed on.
type connection struct {
	*net.UnixConn
	client   budget.Client // whom it counts for
	fromNode bool          // another node has forwarded it
	hello    end.Hello     // set once, guarded by Server.mu
	passed   bool          // it is being passed on, and closed then; guarded by Server.mu
	read     chan struct{} // closed when its goroutine reads no more
}

// Listen listens at a path.
func Listen(path string, owner ownership.Attributes, c Config) (*Server, error) {
	l, err := socket.ListenUnix(path, owner)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, log: c.Log, kept: c.Kept, nodes: c.Nodes, slots: admission.NewSlots(connectionsMax),
		far: admission.NewSlots(farMax), open: map[*connection]bool{}, jobs: map[int64]*meeting{},
		forwarded: map[net.Conn]string{}, keptAt: map[int64]string{}}
	s.unasked = ratelog.New(c.Log, logrus.WarnLevel, "kept output may be on a node that cannot be asked", "count")
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Serve accepts connections until Close.
func (s *Server) Serve() error {
	if s.nodes != nil {
		known, _ := s.nodes.Master()
		s.begin(func() { s.watchMaster(known) })
	}
	for {
		accepted, err := s.listener.Accept()
		switch local, isUnix := accepted.(*net.UnixConn); {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			time.Sleep(50 * time.Millisecond) // too many open files
		case isUnix:
			s.start(&connection{UnixConn: local, client: clientOf(local)})
		}
	}
}

// Open connects a reader of this process, which counts for a client.
func (s *Server) Open(client budget.Client, h end.Hello) (*os.File, error) {
	return s.connect(client, h, false)
}

// connect is Open; fromNode says that another node has forwarded the reader.
func (s *Server) connect(client budget.Client, h end.Hello, fromNode bool) (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, reader := os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "output")
	defer ours.Close()
	served, err := net.FileConn(ours)
	if err == nil {
		s.start(&connection{UnixConn: served.(*net.UnixConn), client: client, fromNode: fromNode})
		_, err = reader.Write(h.Line())
	}
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return reader, nil
}

// start serves a connection, or closes it.
func (s *Server) start(c *connection) {
	c.read = make(chan struct{})
	if !s.begin(func() { s.serve(c) }) {
		_ = c.Close()
	}
}

// begin runs f until Close at the latest. It reports false if the server is closed.
func (s *Server) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.serving.Go(f)
	}
	return !s.closed
}

// Close ends all connections, and returns when none is left. Readers that were passed to their process go on.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	s.stop()
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
	return err
}

// serve serves one connection until it has ended, or is passed on.
func (s *Server) serve(c *connection) {
	slot := s.slots.Admit(c.client, func() { _ = c.Close() })
	if slot == nil {
		_ = c.Close()
		return
	}
	defer slot.Close()
	s.add(c)
	defer s.remove(c)
	if err := s.serveHello(c, slot); err != nil {
		s.log.WithFields(logrus.Fields{"job": c.hello.Job, "err": err}).Debug("a connection for output has ended")
	}
}

// serveHello serves a connection according to its first line.
func (s *Server) serveHello(c *connection, slot *admission.Slot) error {
	defer close(c.read)
	h, err := readHello(c.UnixConn)
	if err != nil {
		return err
	}
	s.mu.Lock()
	c.hello = h
	s.mu.Unlock()
	slot.Move(budget.Idle)
	switch {
	case h.Writes:
		if err := c.mayWrite(); err != nil {
			return err
		}
		c.client.Class = budget.Jobs
		slot.Assign(c.client)
	case h.Kept != nil:
		slot.Move(budget.Sending)
		if err := checkKept(h); err != nil {
			return err
		}
		return s.sendKept(c)
	default:
		switch node, err := s.masterFor(c); {
		case err != nil:
			return err
		case node != "":
			return s.forward(c, node)
		}
	}
	s.meet(c)
	_, _ = io.ReadFull(c.UnixConn, make([]byte, 1)) // neither a process nor a reader that waits sends anything
	return nil
}

func (s *Server) add(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[c] = true; s.closed {
		_ = c.Close()
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
	_ = c.Close()
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
				s.log.WithFields(logrus.Fields{"job": r.hello.Job, "err": err}).
					Warn("a reader of output could not be passed to the job's process; it connects again")
			}
		}
	})
}

// pass passes a reader to the process of its job, and closes this process's descriptor of it.
func pass(reader, process *connection) error {
	_ = reader.SetReadDeadline(time.Unix(1, 0))
	<-reader.read // from here on nobody here takes what the reader sends
	defer reader.Close()
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

// readHello reads the first line, and no byte after it.
func readHello(c net.Conn) (h end.Hello, err error) {
	if err := c.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return h, err
	}
	line := make([]byte, 0, end.HelloMax)
	for len(line) < end.HelloMax {
		if _, err := io.ReadFull(c, line[len(line):len(line)+1]); err != nil {
			return h, err
		}
		if line = line[:len(line)+1]; line[len(line)-1] == '\n' {
			if err := json.Unmarshal(line, &h); err != nil {
				return h, fmt.Errorf("decode the first line: %w", err)
			}
			if h.Job <= 0 {
				return h, fmt.Errorf("there is no job %d", h.Job)
			}
			return h, c.SetReadDeadline(time.Time{})
		}
	}
	return h, fmt.Errorf("the first line has more than %d bytes", end.HelloMax)
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
