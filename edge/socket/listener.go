// Package socket serves clients that connect to a unix socket, or to a listener of another
// node. It is the real side of the port conn.Conn.
//
// A Listener owns its connections and a goroutine for each. It reads one request at a time,
// sends it to the gateway's actor, waits for the answer and writes it. It bounds the number of
// connections and the memory of large requests. Nothing survives a crash: clients connect
// again.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/core/ownership"
	"lockstep/core/wire"
)

const (
	// serveTimeout is how long a connection may wait for an actor that serves it.
	serveTimeout = 10 * time.Second
	// offerInterval is the first pause before an unserved connection is offered again.
	offerInterval = 250 * time.Millisecond
	// sendTimeout is how long a client may take to read one answer.
	sendTimeout = 60 * time.Second
)

// Options are the options of a listener.
type Options struct {
	MaxFrame    int                  // bounds a request, in bytes
	MaxConns    int                  // bounds the connections that are open at a time, see connLimiter; 0: any number
	MaxBuffered int                  // bounds the large requests of all connections together, in bytes; 0: any number
	Idle        time.Duration        // how long a client may send nothing, or take to send one request
	Owner       ownership.Attributes // of the socket: who may connect
	Forwards    bool                 // clients are other nodes, which pass requests on
}

// Listener accepts connections and serves them.
type Listener struct {
	listener    net.Listener
	userNames   userNames
	options     Options
	budget      *budget
	connLimiter *connLimiter
	serving     sync.WaitGroup
}

// Listen listens on the unix socket at path, and removes a stale file there. The queue's lock
// excludes another daemon that uses it.
func Listen(path string, options Options) (*Listener, error) {
	l, err := ListenUnix(path, options.Owner)
	if err != nil {
		return nil, err
	}
	return NewListener(l, options), nil
}

// ListenUnix listens at a path. The caller owns the directory, so an existing socket there is
// stale. The socket has its user, group and mode, whatever the umask; before that only the user of
// this process can connect.
func ListenUnix(path string, owner ownership.Attributes) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale socket: %w", err)
	}
	config := net.ListenConfig{Control: restrict}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := setOwner(path, owner); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func setOwner(path string, owner ownership.Attributes) (err error) {
	if owner.UID >= 0 || owner.GID >= 0 {
		err = os.Chown(path, owner.UID, owner.GID)
	}
	if err == nil {
		err = os.Chmod(path, fs.FileMode(owner.Mode))
	}
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// restrict is called before bind: the file of a unix socket gets the mode of its descriptor, less the umask.
func restrict(_, _ string, raw syscall.RawConn) (err error) {
	controlErr := raw.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) })
	return errors.Join(controlErr, err)
}

// NewListener serves the connections of another listener. It ignores Options.Owner.
func NewListener(l net.Listener, options Options) *Listener {
	return &Listener{listener: l, options: options, budget: newBudget(options.MaxBuffered), connLimiter: newConnLimiter(options.MaxConns)}
}

// Close stops accepting connections, and removes the socket.
func (l *Listener) Close() error { return l.listener.Close() }

// Wait returns when all served connections have sent their answers, or after d.
func (l *Listener) Wait(d time.Duration) {
	done := make(chan struct{})
	go func() {
		l.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(d):
	}
}

// Serve accepts connections until Close. It offers each to the actor that is the gateway at
// that time.
func (l *Listener) Serve(sys *actor.ActorSystem, gateway func() *actor.PID) error {
	for {
		nc, err := l.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.connLimiter.evictOne()
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		c := &streamConn{conn: nc, root: sys.Root, options: l.options, peer: peerOf(nc), userNames: &l.userNames, connLimiter: l.connLimiter, answers: make(chan [][]byte, 1), serving: &l.serving}
		c.share = share{budget: l.budget, interrupt: c.interrupt}
		c.onEnd = func() {
			c.share.release()
			l.connLimiter.connClosed(c)
		}
		if !l.connLimiter.admit(c) {
			_ = nc.Close() // at once, so that the client can connect again
			continue
		}
		time.AfterFunc(serveTimeout, c.closeUnserved)
		offer(sys, gateway, &conn.Opened{Conn: c, Peer: c.peer.forActors()}, c.closeClaimed.Load, offerInterval)
	}
}

// offer sends a connection to the gateway. The message is lost when the gateway has not started yet, crashes on it, or
// stops before it reads it because another gateway takes its place. So a connection that is neither served nor closed is
// offered again, to the gateway of that time, until closeUnserved. The pauses double.
func offer(sys *actor.ActorSystem, gateway func() *actor.PID, m *conn.Opened, settled func() bool, interval time.Duration) {
	sys.Root.Send(gateway(), m)
	time.AfterFunc(interval, func() {
		if !settled() {
			offer(sys, gateway, m, settled, 2*interval)
		}
	})
}

// streamConn is a connection with one goroutine, which reads a request, waits for its answer
// and sends it, in a loop.
type streamConn struct {
	conn         net.Conn
	root         *actor.RootContext
	options      Options
	peer         peer
	userNames    *userNames
	share        share
	answers      chan [][]byte // at most one, in parts: that of the current request
	onEnd        func()
	connLimiter  *connLimiter
	evicted      atomic.Bool // to make room for another
	closeClaimed atomic.Bool // decides which of serve and closeUnserved closes conn
	closing      atomic.Bool
	serving      *sync.WaitGroup
}

// Serve starts reading requests, for the actor to.
func (c *streamConn) Serve(to *actor.PID) {
	if c.closeClaimed.CompareAndSwap(false, true) {
		c.serving.Go(func() { c.serve(to) })
		return
	}
	c.root.Send(to, &conn.Closed{})
}

// closeUnserved closes a connection that no actor serves.
func (c *streamConn) closeUnserved() {
	if c.closeClaimed.CompareAndSwap(false, true) {
		_ = c.conn.Close()
		c.onEnd()
	}
}

// Answer sends the answer to the current request.
func (c *streamConn) Answer(parts ...[]byte) {
	if !c.closing.Load() {
		c.answers <- parts // never blocks: one answer a request
	}
}

// Close ends the connection after the answers are sent.
func (c *streamConn) Close() {
	if c.closing.CompareAndSwap(false, true) {
		close(c.answers)
		c.interrupt()
		c.closeUnserved()
	}
}

// evict ends an idle connection. A request that arrives at the same time is answered first.
func (c *streamConn) evict() {
	c.evicted.Store(true)
	c.interrupt()
	c.closeUnserved()
}

// interrupt wakes a read; see serve.
func (c *streamConn) interrupt() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) }

func (c *streamConn) serve(to *actor.PID) {
	defer c.onEnd()
	defer c.conn.Close()
	by := c.peer.describe(c.userNames)
	reader := wire.NewReader(c.conn, c.options.MaxFrame)
	reader.SetGrowCheck(c.share.grow)
	for {
		if c.conn.SetReadDeadline(time.Now().Add(c.options.Idle)) != nil || c.closing.Load() || c.evicted.Load() {
			// Close and evict set their deadline after the flag: it is either seen
			// here or comes after ours. A share is taken away after ours, too.
			c.root.Send(to, &conn.Closed{})
			return
		}
		c.share.beginRead(reader.Size())
		frame, err := reader.ReadFrame()
		err = c.share.endRead(err)
		var tooLarge *wire.FrameTooLarge
		switch {
		case err == nil:
			c.connLimiter.markBusy(c)
			c.root.Send(to, &conn.Received{Frame: frame, By: by, Forwarded: c.options.Forwards})
		case errors.As(err, &tooLarge), errors.Is(err, errBudgetUsedUp):
			c.root.Send(to, &conn.Refused{Err: err})
		default:
			c.root.Send(to, &conn.Closed{})
			return
		}
		answer, open := <-c.answers
		if !open {
			return
		}
		if c.conn.SetWriteDeadline(time.Now().Add(sendTimeout)) != nil || writeFrame(c.conn, answer) != nil {
			c.root.Send(to, &conn.Closed{})
			return
		}
		c.connLimiter.markIdle(c)
	}
}

// writeFrame writes a frame that consists of parts. Several parts are JSON that lockstep has encoded, which has no control characters:
// a search in a long answer costs a quarter of its time.
func writeFrame(c net.Conn, parts [][]byte) error {
	if len(parts) == 1 {
		return wire.WriteFrame(c, parts[0])
	}
	frame := append(append(make(net.Buffers, 0, len(parts)+1), parts...), []byte{wire.Terminator}) // WriteTo changes it
	_, err := frame.WriteTo(c)
	return err
}
