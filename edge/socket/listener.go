// Package socket serves clients that connect to a unix socket, or to a listener of another
// node. It is the real side of the port conn.Conn.
//
// A Listener owns its connections and a goroutine for each. It reads one request at a time,
// sends it to the gateway's actor, waits for the answer and writes it. It bounds the number of
// connections and the memory of large requests. Nothing survives a crash: clients connect
// again.
package socket

import (
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
	"lockstep/core/wire"
)

const (
	// serveTimeout is how long a connection may wait for somebody to serve it: the
	// gateway's actor may crash just when it is told.
	serveTimeout = 10 * time.Second
	// offerInterval is the first pause before a connection that nobody serves is looked at.
	offerInterval = 250 * time.Millisecond
	// sendTimeout is how long a client may take to read one answer.
	sendTimeout = 60 * time.Second
)

// Options of a listener.
type Options struct {
	MaxFrame    int           // bounds a request, in bytes
	MaxConns    int           // bounds the connections that are open at a time, see roster; 0: any number
	MaxBuffered int           // bounds the large requests of all connections together, in bytes; 0: any number
	Idle        time.Duration // how long a client may say nothing, or take to send one request
	Mode        fs.FileMode   // of the socket: who may connect
	Group       *int          // of the socket; nil: the daemon's own
	Forwards    bool          // clients are other nodes, which pass requests on
}

// Listener is the real source of connections: a unix socket.
type Listener struct {
	listener    net.Listener
	userNames   userNames
	options     Options
	budget      *budget
	connLimiter *connLimiter
	serving     sync.WaitGroup
}

// Listen takes the socket at path, whose stale file is removed: the queue's lock
// says that no other daemon is using it.
func Listen(path string, options Options) (*Listener, error) {
	mode := options.Mode
	if options.Group != nil {
		mode &^= 0o070 // until it is the right group's
	}
	l, err := ListenUnix(path, mode)
	if err != nil {
		return nil, err
	}
	if options.Group != nil {
		if err := errors.Join(os.Chown(path, -1, *options.Group), os.Chmod(path, options.Mode)); err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
		}
	}
	return NewListener(l, options), nil
}

// ListenUnix listens at a path. The caller owns the directory, so that a socket that is
// there is left over.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	return l, nil
}

// NewListener is for the connections of another listener; the mode is not its concern.
func NewListener(l net.Listener, options Options) *Listener {
	return &Listener{listener: l, options: options, budget: newBudget(options.MaxBuffered), connLimiter: newConnLimiter(options.MaxConns)}
}

// Close takes no more connections, and removes the socket.
func (l *Listener) Close() error { return l.listener.Close() }

// Wait returns when the connections that were served have sent what they were
// given to send, or after d.
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

// Serve tells the gateway, whoever that is then, of each connection, until Close.
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
		c := &streamConn{conn: nc, root: sys.Root, options: l.options, peer: peerOf(nc), userNames: &l.userNames, connLimiter: l.connLimiter, answers: make(chan []byte, 1), serving: &l.serving}
		c.share = share{budget: l.budget, interrupt: c.interrupt}
		c.onEnd = func() {
			c.share.release()
			l.connLimiter.connClosed(c)
		}
		if !l.connLimiter.admit(c) {
			_ = nc.Close() // at once, so that its client can come again
			continue
		}
		time.AfterFunc(serveTimeout, c.closeUnserved)
		offer(sys, gateway, c, offerInterval)
	}
}

// offer tells the gateway of a connection. When a node becomes the master, or ceases to
// be, another gateway takes the place of this one, which may have been stopped with the
// news unread: the connection is offered again to the one that is there then. The pauses
// double, until closeUnserved.
func offer(sys *actor.ActorSystem, gateway func() *actor.PID, c *streamConn, interval time.Duration) {
	to := gateway()
	sys.Root.Send(to, &conn.Opened{Conn: c})
	var offerAgain func()
	offerAgain = func() {
		switch {
		case c.closeClaimed.Load():
		case gateway().Equal(to):
			interval *= 2
			time.AfterFunc(interval, offerAgain)
		default:
			offer(sys, gateway, c, 2*interval)
		}
	}
	time.AfterFunc(interval, offerAgain)
}

// streamConn has one goroutine, which reads a request, waits for its answer,
// sends it, and so on.
type streamConn struct {
	conn         net.Conn
	root         *actor.RootContext
	options      Options
	peer         peer
	userNames    *userNames
	share        share
	answers      chan []byte // at most one: the request at hand's
	onEnd        func()
	connLimiter  *connLimiter
	evicted      atomic.Bool // to make room for another
	closeClaimed atomic.Bool // it is known whether serve or closeUnserved closes conn
	closing      atomic.Bool
	serving      *sync.WaitGroup
}

// Serve begins to read.
func (c *streamConn) Serve(to *actor.PID) {
	if c.closeClaimed.CompareAndSwap(false, true) {
		c.serving.Go(func() { c.serve(to) })
		return
	}
	c.root.Send(to, &conn.Closed{})
}

// closeUnserved closes a connection that nobody serves.
func (c *streamConn) closeUnserved() {
	if c.closeClaimed.CompareAndSwap(false, true) {
		_ = c.conn.Close()
		c.onEnd()
	}
}

// Answer sends the answer to the request at hand.
func (c *streamConn) Answer(frame []byte) {
	if !c.closing.Load() {
		c.answers <- frame // never blocks: one answer a request
	}
}

// Close ends the connection after what was answered.
func (c *streamConn) Close() {
	if c.closing.CompareAndSwap(false, true) {
		close(c.answers)
		c.interrupt()
		c.closeUnserved()
	}
}

// evict ends a connection that is idle. A request that comes in the same moment is
// answered first.
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
		if c.conn.SetWriteDeadline(time.Now().Add(sendTimeout)) != nil || wire.WriteFrame(c.conn, answer) != nil {
			c.root.Send(to, &conn.Closed{})
			return
		}
		c.connLimiter.markIdle(c)
	}
}
