// Package attach is the connection between the processes ganeti-luxid and ganeti-wconfd of lockstep in Ganeti mode.
//
// ganeti-luxid listens at the queue's socket, and passes the listening socket to ganeti-wconfd, which has the queue's actors
// and accepts the clients. The life of the connection is the life of ganeti-luxid: when it ends, ganeti-wconfd ends the
// queue. When ganeti-wconfd ends, the socket stays with ganeti-luxid, clients wait in its backlog, and ganeti-luxid passes it
// to the next ganeti-wconfd. Nothing is on the disk but the socket's name.
//
// The protocol: ganeti-luxid sends one byte with the descriptor. ganeti-wconfd answers lines: "ready", when clients are
// served, or "error: TEXT", when the queue cannot be served, and closes. ganeti-luxid closes its side of the connection to end
// the queue, and waits until ganeti-wconfd closes the other.
package attach

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
	"lockstep/edge/socket"
)

// Lines of the answer.
const (
	readyLine   = "ready"
	errorPrefix = "error: "
)

// handOverTimeout bounds the time for the descriptor to arrive.
const handOverTimeout = 5 * time.Second

// Server accepts the connections of ganeti-luxid.
type Server struct{ listener net.Listener }

// Listen listens at path. owner owns the socket.
func Listen(path string, owner ownership.Attributes) (*Server, error) {
	l, err := socket.ListenUnix(path, owner)
	if err != nil {
		return nil, err
	}
	return &Server{l}, nil
}

// Close accepts no more connections.
func (s *Server) Close() error { return s.listener.Close() }

// Accept returns the next ganeti-luxid that has passed its socket. A connection that passes none is closed. The error is
// net.ErrClosed after Close.
func (s *Server) Accept() (*Queue, error) {
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil, net.ErrClosed
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if local, isUnix := c.(*net.UnixConn); isUnix {
			if q, err := receive(local); err == nil {
				return q, nil
			}
		}
		_ = c.Close()
	}
}

func receive(c *net.UnixConn) (*Queue, error) {
	if err := c.SetReadDeadline(time.Now().Add(handOverTimeout)); err != nil {
		return nil, err
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, err
	}
	fd, err := descriptor(control[:n])
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "queue socket")
	listener, err := net.FileListener(file)
	_ = file.Close() // the listener has a descriptor of its own
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, err
	}
	q := &Queue{Listener: listener, conn: c, gone: make(chan struct{})}
	go q.awaitEnd()
	return q, nil
}

// descriptor is the one descriptor of a control message. It is closed at exec. Anything else is an error.
func descriptor(control []byte) (int, error) {
	parsed, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(parsed) != 1 {
		return -1, errors.New("no descriptor came")
	}
	fds, err := unix.ParseUnixRights(&parsed[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("no descriptor came")
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// Queue is the connection to a ganeti-luxid that has passed its socket, as ganeti-wconfd sees it.
type Queue struct {
	Listener net.Listener // at the queue's socket
	conn     *net.UnixConn
	gone     chan struct{}
	closing  sync.Once
}

func (q *Queue) awaitEnd() {
	defer close(q.gone)
	_, _ = q.conn.Read(make([]byte, 1)) // it sends nothing more
}

// Gone returns a channel that is closed when ganeti-luxid has ended or wants to end.
func (q *Queue) Gone() <-chan struct{} { return q.gone }

// Ready tells ganeti-luxid that clients are served.
func (q *Queue) Ready() { q.send(readyLine) }

// Fail tells ganeti-luxid why the queue cannot be served. It then ends.
func (q *Queue) Fail(err error) {
	q.send(errorPrefix + strings.ReplaceAll(err.Error(), "\n", "; "))
}

func (q *Queue) send(line string) {
	_ = q.conn.SetWriteDeadline(time.Now().Add(handOverTimeout)) // its reader may be stopped
	_, _ = q.conn.Write([]byte(line + "\n"))                     // the end of the connection tells the rest
}

// Close closes the listener and the connection to ganeti-luxid, which learns from this that the queue is not served any more.
func (q *Queue) Close() {
	q.closing.Do(func() { _, _ = q.Listener.Close(), q.conn.Close() })
}

// QueueError says why ganeti-wconfd does not serve the queue.
type QueueError struct{ Text string }

func (e *QueueError) Error() string { return e.Text }

// Client is the connection to a living ganeti-wconfd, seen from ganeti-luxid.
type Client struct {
	conn  *net.UnixConn
	lines *bufio.Scanner
}

// Dial connects to the ganeti-wconfd at path and passes it the listening socket.
func Dial(path string, listener *net.UnixListener) (*Client, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	conn, isUnix := c.(*net.UnixConn)
	if !isUnix {
		return nil, fmt.Errorf("connection to %s: it is no unix socket", path)
	}
	file, err := listener.File()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer file.Close()
	if _, _, err = conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(file.Fd())), nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Client{conn, bufio.NewScanner(conn)}, nil
}

// AwaitReady returns when clients are served. The error is a *QueueError if ganeti-wconfd refuses; after other errors it has
// ended, and the caller dials again.
func (c *Client) AwaitReady() error {
	if !c.lines.Scan() {
		return errors.New("ganeti-wconfd has closed the connection")
	}
	if text, failed := strings.CutPrefix(c.lines.Text(), errorPrefix); failed {
		return &QueueError{text}
	}
	return nil
}

// AwaitEnd returns nil when ganeti-wconfd has ended, or serves the queue no more; or the *QueueError for which it does not.
func (c *Client) AwaitEnd() error {
	for c.lines.Scan() {
		if text, failed := strings.CutPrefix(c.lines.Text(), errorPrefix); failed {
			return &QueueError{text}
		}
	}
	return nil
}

// End asks ganeti-wconfd to end the service of the queue. AwaitEnd returns when it has.
func (c *Client) End() { _ = c.conn.CloseWrite() }

// Close closes the connection.
func (c *Client) Close() { _ = c.conn.Close() }
