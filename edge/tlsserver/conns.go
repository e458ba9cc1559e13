package tlsserver

import (
	"context"
	"net"
	"net/http"
	"sync"

	"lockstep/core/budget"
	"lockstep/edge/admission"
)

// Conns is a net.Listener that bounds the open connections of an HTTP server. A connection counts for the user of this machine or the
// address it comes from, and for the user after a login. At the limit one gives way to a new one (core/budget).
type Conns struct {
	net.Listener
	table *admission.Table
	slots *admission.Slots

	closeOnce sync.Once
}

// NewConns returns a listener with at most limit open connections. OnStateChange and ConnContext must be hooks of its server.
func NewConns(l net.Listener, limit int, table *admission.Table) *Conns {
	return &Conns{Listener: l, table: table, slots: admission.NewSlots(limit)}
}

// Accept returns the next connection. One that is refused is closed at once.
func (l *Conns) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err // the server retries temporary errors
		}
		tracked := &conn{Conn: c, table: l.table, client: admission.Peer(c)}
		if tracked.slot = l.slots.Admit(tracked.client, func() { _ = c.Close() }); tracked.slot != nil {
			return tracked, nil
		}
		_ = c.Close()
	}
}

// Close stops accepting connections. The server calls it a second time, which is no error.
func (l *Conns) Close() (err error) {
	l.closeOnce.Do(func() { err = l.Listener.Close() })
	return err
}

// Count is the number of open connections.
func (l *Conns) Count() int { return l.slots.Len() }

// OnStateChange is the server's hook ConnState. It notes that a client has sent something.
func (l *Conns) OnStateChange(c net.Conn, state http.ConnState) {
	if tracked := trackedOf(c); tracked != nil && state != http.StateNew {
		tracked.change(func() { tracked.heard = true })
	}
}

type connKey struct{}

// ConnContext is the server's hook of that name.
func (l *Conns) ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, trackedOf(c))
}

// trackedOf is the connection that the listener has made; a connection of TLS wraps it.
func trackedOf(c net.Conn) *conn {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	tracked, _ := c.(*conn)
	return tracked
}

// conn is a connection with a slot. Over HTTP/2 it may have several requests, and has the phase of the highest.
type conn struct {
	net.Conn
	table  *admission.Table
	slot   *admission.Slot
	client budget.Client // before a login

	mu               sync.Mutex
	heard            bool // has begun a request
	working, sending int  // requests in that phase
}

// Close is part of net.Conn. It also frees the slot of the connection.
func (c *conn) Close() error {
	c.slot.Close()
	return c.Conn.Close()
}

// change changes the state with f, and the phase of the connection's slot with it: Working, Sending, Idle or Silent.
func (c *conn) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	phase := budget.Silent
	switch {
	case c.working > 0:
		phase = budget.Working
	case c.sending > 0:
		phase = budget.Sending
	case c.heard:
		phase = budget.Idle
	}
	c.slot.Move(phase)
}
