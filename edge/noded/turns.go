package noded

import (
	"context"
	"sync"

	"lockstep/core/noded"
)

// turnKey identifies the calls that are made one after the other.
type turnKey struct {
	address   string
	procedure noded.Procedure
}

// turns makes calls with the same key wait for each other, in order.
type turns struct {
	mu    sync.Mutex
	queue map[turnKey]*turn
}

// turn is the queue of one key.
type turn struct {
	busy  chan struct{} // has an element while a call is in progress
	users int           // calls in progress and waiting; the turn is deleted with the last one
}

// begin waits for all earlier calls of the key. The caller must call end.
func (t *turns) begin(ctx context.Context, key turnKey) (end func(), err error) {
	of := t.join(key)
	select {
	case of.busy <- struct{}{}:
		return func() {
			<-of.busy
			t.leave(key)
		}, nil
	case <-ctx.Done():
		t.leave(key)
		return nil, ctx.Err()
	}
}

func (t *turns) join(key turnKey) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue == nil {
		t.queue = map[turnKey]*turn{}
	}
	if t.queue[key] == nil {
		t.queue[key] = &turn{busy: make(chan struct{}, 1)}
	}
	t.queue[key].users++
	return t.queue[key]
}

func (t *turns) leave(key turnKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.queue[key]
	if of.users--; of.users == 0 {
		delete(t.queue, key)
	}
}
