package admission

import (
	"context"
	"sync"

	"lockstep/core/budget"
)

// memory is budget.Bytes with a mutex, for the goroutines of all requests.
type memory struct {
	mu    sync.Mutex
	bytes *budget.Bytes
	open  map[*budget.Share]*Share
	collector
}

// Share is the memory that one request and its answer count for, from the first byte received to the last byte sent.
type Share struct {
	table     *Table
	share     *budget.Share
	interrupt func() // ends the receiving; it does not block
	revoked   bool   // guarded by the mutex of memory, as is ended
	ended     bool
	receives  bool // between Receive and Keep
}

// Share makes an empty share. interrupt is called when a request that is being received loses its memory to another one.
func (t *Table) Share(c budget.Client, interrupt func()) *Share {
	return &Share{table: t, share: t.memory.bytes.Share(c), interrupt: interrupt}
}

// Receive says that a request is being received from now on: it may lose its memory to another one until Keep.
func (s *Share) Receive() {
	s.table.memory.mu.Lock()
	defer s.table.memory.mu.Unlock()
	s.revoked, s.receives = false, true
	s.table.memory.bytes.Receive(s.share)
}

// Keep says that the request is complete and keeps its memory until Release. The error is ErrBusy if its memory was taken meanwhile.
func (s *Share) Keep() error {
	s.table.memory.mu.Lock()
	defer s.table.memory.mu.Unlock()
	s.receives = false
	if s.revoked {
		return ErrBusy
	}
	s.table.memory.bytes.Keep(s.share)
	return nil
}

// Grow makes the share this many bytes. The error is ErrBusy if there is not enough memory; the share stays as it was.
func (s *Share) Grow(size int) error { return s.change(func(int) int { return size }) }

// Add makes the share larger by this many bytes. The error is ErrBusy if there is not enough memory; the share stays as it was.
func (s *Share) Add(more int) error { return s.change(func(used int) int { return used + more }) }

func (s *Share) change(to func(used int) int) error {
	m := &s.table.memory
	m.mu.Lock()
	if s.revoked || s.ended {
		m.mu.Unlock()
		return ErrBusy
	}
	before := s.share.Used()
	evicted, ok := m.bytes.Grow(s.share, to(before))
	taken := s.share.Used() - before
	var victims []*Share
	for _, e := range evicted {
		if v := m.open[e]; v != nil {
			v.revoked = true
			delete(m.open, e)
			victims = append(victims, v)
		}
	}
	if s.share.Used() > 0 {
		m.open[s.share] = s
	}
	receives := s.receives
	m.mu.Unlock()
	for _, v := range victims {
		v.interrupt()
	}
	m.took(taken, receives)
	if !ok {
		return ErrBusy
	}
	return nil
}

// Used is how many bytes of memory the share has taken.
func (s *Share) Used() int {
	s.table.memory.mu.Lock()
	defer s.table.memory.mu.Unlock()
	return s.share.Used()
}

// Assign makes the share count for another client: its user has logged in.
func (s *Share) Assign(c budget.Client) {
	s.table.memory.mu.Lock()
	defer s.table.memory.mu.Unlock()
	s.table.memory.bytes.Assign(s.share, c)
}

// Release gives all memory back.
func (s *Share) Release() { s.release(false) }

// End is Release for good: an actor that still makes an answer gets no more memory.
func (s *Share) End() { s.release(true) }

func (s *Share) release(forGood bool) {
	s.table.memory.mu.Lock()
	defer s.table.memory.mu.Unlock()
	s.table.memory.bytes.Release(s.share)
	delete(s.table.memory.open, s.share)
	s.ended = s.ended || forGood
}

type (
	shareKey  struct{}
	clientKey struct{}
)

// WithClient returns a context whose work counts for a client.
func WithClient(ctx context.Context, c budget.Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientOf is the client of a context; the zero client if there is none.
func ClientOf(ctx context.Context) budget.Client {
	c, _ := ctx.Value(clientKey{}).(budget.Client)
	return c
}

// WithShare returns a context for the work on a request, whose memory counts in the share.
func WithShare(ctx context.Context, s *Share) context.Context {
	return context.WithValue(ctx, shareKey{}, s)
}

// Waiter is a request whose connection may give way while the request only waits.
type Waiter interface {
	// Wait says that the request waits, until resume is called.
	Wait() (resume func())
}

type waiterKey struct{}

// WithWaiter returns a context of a request that is told when it waits.
func WithWaiter(ctx context.Context, w Waiter) context.Context {
	return context.WithValue(ctx, waiterKey{}, w)
}

// WaiterOf is the request of a context that is told when it waits.
func WaiterOf(ctx context.Context) Waiter {
	if w, ok := ctx.Value(waiterKey{}).(Waiter); ok {
		return w
	}
	return nobody{}
}

// nobody is the Waiter of requests whose connection does not give way while they wait: it does nothing.
type nobody struct{}

// Wait is part of Waiter. It does nothing: there is no connection that could give way.
func (nobody) Wait() (resume func()) { return func() {} }

// Part returns a context for a part of what is done for a request. What the part takes is given back by release, before the request
// ends.
func Part(ctx context.Context) (part context.Context, release func()) {
	whole, ok := ctx.Value(shareKey{}).(*Share)
	if !ok {
		return ctx, func() {}
	}
	whole.table.memory.mu.Lock()
	defer whole.table.memory.mu.Unlock()
	s := &Share{table: whole.table, share: whole.table.memory.bytes.Share(whole.share.Client()), interrupt: func() {}}
	return WithShare(ctx, s), s.End
}

// Take asks for more memory for the request of a context. Without a share it does nothing.
func Take(ctx context.Context, bytes int) error {
	if s, ok := ctx.Value(shareKey{}).(*Share); ok {
		return s.Add(bytes)
	}
	return nil
}

// RenderTurn is Table.Turn with class Render for a part of the request of a context that uses a processor all the time. Without a share it
// does not wait.
func RenderTurn(ctx context.Context) (release func(), err error) {
	s, ok := ctx.Value(shareKey{}).(*Share)
	if !ok {
		return func() {}, nil
	}
	_, release, err = s.table.Turn(ctx, Render)
	return release, err
}
