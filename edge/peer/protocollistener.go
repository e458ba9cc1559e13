package peer

import (
	"net"
	"sync"
)

// backlogMax bounds the connections of a protocol that wait to be accepted.
const backlogMax = 64

// protocolListener is the net.Listener of one protocol.
type protocolListener struct {
	address net.Addr
	backlog chan net.Conn
	done    chan struct{}

	mu     sync.Mutex // guards closed: nothing is added to the backlog after Close
	closed bool
}

func newProtocolListener(address net.Addr) *protocolListener {
	return &protocolListener{address: address, backlog: make(chan net.Conn, backlogMax), done: make(chan struct{})}
}

// deliver adds a connection to the backlog. It reports false if the listener is closed or the
// backlog is full.
func (l *protocolListener) deliver(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	select {
	case l.backlog <- c:
		return true
	default:
		return false
	}
}

func (l *protocolListener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Accept is part of net.Listener. The error is net.ErrClosed after Close.
func (l *protocolListener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close is part of net.Listener. It closes the backlog; connections that were accepted stay open.
// A second call does nothing.
func (l *protocolListener) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	l.mu.Unlock()
	for {
		select {
		case c := <-l.backlog:
			c.Close()
		default:
			return nil
		}
	}
}

// Addr is the address of the port that the protocols share, as net.Listener wants.
func (l *protocolListener) Addr() net.Addr { return l.address }
