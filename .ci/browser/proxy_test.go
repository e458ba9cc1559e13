package browser

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is a way to a daemon that can be cut.
type proxy struct {
	address string

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{address: listener.Addr().String(), conns: map[net.Conn]bool{}}
	t.Cleanup(func() { listener.Close(); p.cut() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			if there, err := net.Dial("tcp", to); err == nil && p.add(from, there) {
				go p.pass(from, there)
				go p.pass(there, from)
			} else {
				from.Close()
			}
		}
	}()
	return p
}

func (p *proxy) add(both ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range both {
		if p.isCut {
			c.Close()
			continue
		}
		p.conns[c] = true
	}
	return !p.isCut
}

func (p *proxy) pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // ends with one of the connections
	to.Close()
	from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, to)
	delete(p.conns, from)
}

// cut ends all connections, and refuses new ones until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = true
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = false
}
