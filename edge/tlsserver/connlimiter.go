package tlsserver

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// ConnLimiter bounds the number of open connections. At the limit a new connection evicts the one
// that has been idle for longest, so that idle clients cannot keep out active ones.
type ConnLimiter struct {
	net.Listener
	limit int

	mu   sync.Mutex
	open map[net.Conn]*list.Element // nil: a request is in progress
	idle *list.List                 // of net.Conn, the longest idle first

	closeOnce sync.Once
}

// NewConnLimiter returns a listener with at most limit open connections. OnStateChange must be the ConnState hook of its server.
func NewConnLimiter(l net.Listener, limit int) *ConnLimiter {
	return &ConnLimiter{Listener: l, limit: limit, open: map[net.Conn]*list.Element{}, idle: list.New()}
}

// Accept returns the next connection. At the limit without an idle connection it closes the new
// connection at once.
func (l *ConnLimiter) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err // the server retries temporary errors
		}
		tracked := &trackedConn{Conn: c, limiter: l}
		if l.admit(tracked) {
			return tracked, nil
		}
		_ = c.Close()
	}
}

// Close stops accepting connections. The server calls it a second time, which is no error.
func (l *ConnLimiter) Close() (err error) {
	l.closeOnce.Do(func() { err = l.Listener.Close() })
	return err
}

func (l *ConnLimiter) admit(c *trackedConn) bool {
	l.mu.Lock()
	full := len(l.open) >= l.limit
	var victim *list.Element
	if full {
		victim = l.idle.Front()
	}
	if full && victim == nil {
		l.mu.Unlock()
		return false
	}
	var old *trackedConn
	if victim != nil {
		old, _ = victim.Value.(*trackedConn)
		l.idle.Remove(victim)
		delete(l.open, old)
	}
	l.open[c] = l.idle.PushBack(c) // idle until it has sent something
	l.mu.Unlock()
	if old != nil {
		_ = old.Conn.Close()
	}
	return true
}

// OnStateChange is the server's ConnState hook. The connection may be one of TLS that wraps a
// trackedConn.
func (l *ConnLimiter) OnStateChange(c net.Conn, state http.ConnState) {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	element, known := l.open[c]
	if !known {
		return
	}
	switch state {
	case http.StateActive, http.StateHijacked:
		if element != nil {
			l.idle.Remove(element)
			l.open[c] = nil
		}
	case http.StateIdle:
		if element == nil {
			l.open[c] = l.idle.PushBack(c)
		}
	}
}

func (l *ConnLimiter) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element := l.open[c]; element != nil {
		l.idle.Remove(element)
	}
	delete(l.open, c)
}

// Count is the number of open connections.
func (l *ConnLimiter) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// trackedConn tells its limiter when it is closed.
type trackedConn struct {
	net.Conn
	limiter *ConnLimiter
}

func (c *trackedConn) Close() error {
	c.limiter.remove(c)
	return c.Conn.Close()
}
