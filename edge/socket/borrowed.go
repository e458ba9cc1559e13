package socket

import (
	"net"
	"sync"
	"time"
)

// Borrow returns a listener that accepts from l until it is closed. l stays open, and the clients that were not accepted wait
// for the next one that accepts. l must have deadlines.
func Borrow(l net.Listener) net.Listener {
	if d, ok := l.(deadliner); ok {
		_ = d.SetDeadline(time.Time{})
	}
	return &borrowed{Listener: l, closed: make(chan struct{})}
}

type deadliner interface{ SetDeadline(time.Time) error }

type borrowed struct {
	net.Listener
	closing   sync.Once
	closed    chan struct{}
	accepting sync.Mutex // held by Accept; Close returns when no Accept can take a client
}

// Accept is part of net.Listener. After Close it returns net.ErrClosed, though the socket, which is not its own, stays open.
func (b *borrowed) Accept() (net.Conn, error) {
	b.accepting.Lock()
	defer b.accepting.Unlock()
	select {
	case <-b.closed:
		return nil, net.ErrClosed
	default:
	}
	c, err := b.Listener.Accept()
	if err != nil {
		select {
		case <-b.closed:
			return nil, net.ErrClosed
		default:
		}
	}
	return c, err // also after Close: the client is served to the end, like those before it
}

// Close is part of net.Listener. It ends Accept, and waits for that: the next borrower removes the deadline.
func (b *borrowed) Close() error {
	b.closing.Do(func() {
		close(b.closed)
		if d, ok := b.Listener.(deadliner); ok {
			_ = d.SetDeadline(time.Unix(1, 0))
		}
		b.accepting.Lock()
		defer b.accepting.Unlock()
	})
	return nil
}
