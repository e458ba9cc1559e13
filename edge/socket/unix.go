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
	// servedMax is how long a connection may wait for somebody to serve it: the
	// gateway's actor may crash just when it is told.
	servedMax = 10 * time.Second
	// offerPause is the first pause before a connection that nobody serves is looked at.
	offerPause = 250 * time.Millisecond
	// sendMax is how long a client may take to read one answer.
	sendMax = 60 * time.Second
)

// Options of a listener.
type Options struct {
	MaxFrame int           // bounds a request, in bytes
	MaxConns int           // bounds the connections that are open at a time, see roster; 0: any number
	MaxHeld  int           // bounds the large requests of all connections together, in bytes; 0: any number
	Idle     time.Duration // how long a client may say nothing, or take to send one request
	Mode     fs.FileMode   // of the socket: who may connect
	Group    *int          // of the socket; nil: the daemon's own
	Forwards bool          // clients are other nodes, which pass requests on
}

// Listener is the real source of connections: a unix socket.
type Listener struct {
	net     net.Listener
	logins  logins
	options Options
	budget  *budget
	roster  *roster
	serving sync.WaitGroup
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
	return Over(l, options), nil
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

// Over is for the connections of another listener; the mode is not its concern.
func Over(l net.Listener, options Options) *Listener {
	return &Listener{net: l, options: options, budget: newBudget(options.MaxHeld), roster: newRoster(options.MaxConns)}
}

// Close takes no more connections, and removes the socket.
func (l *Listener) Close() error { return l.net.Close() }

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
		nc, err := l.net.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.roster.makeRoom()
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		c := &streamConn{net: nc, root: sys.Root, options: l.options, peer: peerOf(nc), logins: &l.logins, roster: l.roster, answers: make(chan []byte, 1), serving: &l.serving}
		c.held = share{budget: l.budget, interrupt: c.interrupt}
		c.ended = func() {
			c.held.end()
			l.roster.left(c)
		}
		if !l.roster.admit(c) {
			_ = nc.Close() // at once, so that its client can come again
			continue
		}
		time.AfterFunc(servedMax, c.giveUp)
		offer(sys, gateway, c, offerPause)
	}
}

// offer tells the gateway of a connection. When a node becomes the master, or ceases to
// be, another gateway takes the place of this one, which may have been stopped with the
// news unread: the connection is offered again to the one that is there then. The pauses
// double, until giveUp.
func offer(sys *actor.ActorSystem, gateway func() *actor.PID, c *streamConn, pause time.Duration) {
	to := gateway()
	sys.Root.Send(to, &conn.Opened{Conn: c})
	var look func()
	look = func() {
		switch {
		case c.taken.Load():
		case gateway().Equal(to):
			pause *= 2
			time.AfterFunc(pause, look)
		default:
			offer(sys, gateway, c, 2*pause)
		}
	}
	time.AfterFunc(pause, look)
}

// streamConn has one goroutine, which reads a request, waits for its answer,
// sends it, and so on.
type streamConn struct {
	net     net.Conn
	root    *actor.RootContext
	options Options
	peer    peer
	logins  *logins
	held    share
	answers chan []byte // at most one: the request at hand's
	ended   func()
	roster  *roster
	evicted atomic.Bool // to make room for another
	taken   atomic.Bool // it is known who closes net: serve, or giveUp
	closing atomic.Bool
	serving *sync.WaitGroup
}

// Serve begins to read.
func (c *streamConn) Serve(to *actor.PID) {
	if c.taken.CompareAndSwap(false, true) {
		c.serving.Go(func() { c.serve(to) })
		return
	}
	c.root.Send(to, &conn.Closed{})
}

// giveUp closes a connection that nobody serves.
func (c *streamConn) giveUp() {
	if c.taken.CompareAndSwap(false, true) {
		_ = c.net.Close()
		c.ended()
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
		c.giveUp()
	}
}

// evict ends a connection that is idle. A request that comes in the same moment is
// answered first.
func (c *streamConn) evict() {
	c.evicted.Store(true)
	c.interrupt()
	c.giveUp()
}

// interrupt wakes a read; see serve.
func (c *streamConn) interrupt() { _ = c.net.SetReadDeadline(time.Unix(1, 0)) }

func (c *streamConn) serve(to *actor.PID) {
	defer c.ended()
	defer c.net.Close()
	by := c.peer.text(c.logins)
	reader := wire.NewReader(c.net, c.options.MaxFrame)
	reader.SetGrowCheck(c.held.grow)
	for {
		if c.net.SetReadDeadline(time.Now().Add(c.options.Idle)) != nil || c.closing.Load() || c.evicted.Load() {
			// Close and evict set their deadline after the flag: it is either seen
			// here or comes after ours. A share is taken away after ours, too.
			c.root.Send(to, &conn.Closed{})
			return
		}
		c.held.read(reader.Size())
		frame, err := reader.ReadFrame()
		err = c.held.whole(err)
		var tooLarge *wire.FrameTooLarge
		switch {
		case err == nil:
			c.roster.busy(c)
			c.root.Send(to, &conn.Received{Frame: frame, By: by, Forwarded: c.options.Forwards})
		case errors.As(err, &tooLarge), errors.Is(err, errCrowded):
			c.root.Send(to, &conn.Refused{Err: err})
		default:
			c.root.Send(to, &conn.Closed{})
			return
		}
		answer, open := <-c.answers
		if !open {
			return
		}
		if c.net.SetWriteDeadline(time.Now().Add(sendMax)) != nil || wire.WriteFrame(c.net, answer) != nil {
			c.root.Send(to, &conn.Closed{})
			return
		}
		c.roster.rests(c)
	}
}
