package rapi

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// connections bounds how many there are. When there are as many as there may be,
// the one that has been idle for longest makes room: clients that only hold
// connections do not keep out those that use theirs.
type connections struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[net.Conn]*list.Element // nil: it is being used
	idle *list.List                 // of net.Conn, the longest idle first

	closing sync.Once
}

func newConnections(l net.Listener, most int) *connections {
	return &connections{Listener: l, most: most, open: map[net.Conn]*list.Element{}, idle: list.New()}
}

// Accept takes a connection. One for which there is no room is closed at once.
func (cs *connections) Accept() (net.Conn, error) {
	for {
		c, err := cs.Listener.Accept()
		if err != nil {
			return nil, err // the server tries again if that may help
		}
		tracked := &trackedConn{Conn: c, connections: cs}
		if cs.admit(tracked) {
			return tracked, nil
		}
		_ = c.Close()
	}
}

// Close takes no more connections. To close it again, as the server does, is no
// error.
func (cs *connections) Close() (err error) {
	cs.closing.Do(func() { err = cs.Listener.Close() })
	return err
}

func (cs *connections) admit(c *trackedConn) bool {
	cs.mu.Lock()
	full := len(cs.open) >= cs.most
	var victim *list.Element
	if full {
		victim = cs.idle.Front()
	}
	if full && victim == nil {
		cs.mu.Unlock()
		return false
	}
	var old *trackedConn
	if victim != nil {
		old, _ = victim.Value.(*trackedConn)
		cs.idle.Remove(victim)
		delete(cs.open, old)
	}
	cs.open[c] = cs.idle.PushBack(c) // until it has sent something
	cs.mu.Unlock()
	if old != nil {
		_ = old.Conn.Close()
	}
	return true
}

// note is told by the server what a connection does. TLS is between the server's
// connection and ours.
func (cs *connections) note(c net.Conn, state http.ConnState) {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	place, known := cs.open[c]
	if !known {
		return
	}
	switch state {
	case http.StateActive, http.StateHijacked:
		if place != nil {
			cs.idle.Remove(place)
			cs.open[c] = nil
		}
	case http.StateIdle:
		if place == nil {
			cs.open[c] = cs.idle.PushBack(c)
		}
	}
}

func (cs *connections) forget(c net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if place := cs.open[c]; place != nil {
		cs.idle.Remove(place)
	}
	delete(cs.open, c)
}

func (cs *connections) number() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open)
}

// trackedConn is forgotten when it is closed.
type trackedConn struct {
	net.Conn
	connections *connections
}

func (c *trackedConn) Close() error {
	c.connections.forget(c)
	return c.Conn.Close()
}
