package peer

import (
	"net"
	"sync"
)

// waitingMax is how many connections of a protocol may wait to be accepted.
const waitingMax = 64

// gate is the net.Listener of one protocol.
type gate struct {
	address net.Addr
	waiting chan net.Conn
	done    chan struct{}

	mutex  sync.Mutex // of closed, and so that nothing is put into waiting after Close
	closed bool
}

func newGate(address net.Addr) *gate {
	return &gate{address: address, waiting: make(chan net.Conn, waitingMax), done: make(chan struct{})}
}

// offer hands a connection over; false: it is not wanted.
func (g *gate) offer(c net.Conn) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.closed {
		return false
	}
	select {
	case g.waiting <- c:
		return true
	default:
		return false
	}
}

func (g *gate) isClosed() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.closed
}

// Accept is part of net.Listener. The error is net.ErrClosed after Close.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case <-g.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-g.waiting:
		return c, nil
	case <-g.done:
		return nil, net.ErrClosed
	}
}

// Close is part of net.Listener. Connections that were accepted live on. It may be
// called again.
func (g *gate) Close() error {
	g.mutex.Lock()
	if !g.closed {
		g.closed = true
		close(g.done)
	}
	g.mutex.Unlock()
	for {
		select {
		case c := <-g.waiting:
			c.Close()
		default:
			return nil
		}
	}
}

// Addr is part of net.Listener.
func (g *gate) Addr() net.Addr { return g.address }
