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
	closing sync.Once
	closed  chan struct{}
}

// Accept is part of net.Listener.
func (b *borrowed) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	select {
	case <-b.closed:
		if err == nil {
			return c, nil // it is served to the end, like the connections before it
		}
		return nil, net.ErrClosed
	default:
		return c, err
	}
}

// Close is part of net.Listener. It ends Accept.
func (b *borrowed) Close() error {
	b.closing.Do(func() {
		close(b.closed)
		if d, ok := b.Listener.(deadliner); ok {
			_ = d.SetDeadline(time.Unix(1, 0))
		}
	})
	return nil
}
