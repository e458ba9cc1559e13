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

// turns makes calls with the same key wait for each other, in the order of take.
type turns struct {
	mu   sync.Mutex
	last map[turnKey]chan struct{} // of the newest turn of a key; closed at its end; absent if no turn is open
}

// turn is the place of a call in the order of its key.
type turn struct {
	of   *turns
	key  turnKey
	prev chan struct{} // closed when all earlier turns have ended
	own  chan struct{} // closed at the end of this turn
}

// take returns the next turn of a key, which begins when the turns before it have ended. The caller must call end.
func (t *turns) take(key turnKey) turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[turnKey]chan struct{}{}
	}
	prev, open := t.last[key]
	if !open {
		prev = make(chan struct{})
		close(prev)
	}
	u := turn{t, key, prev, make(chan struct{})}
	t.last[key] = u.own
	return u
}

// wait returns when all earlier turns of its key have ended, or when the context ends.
func (u turn) wait(ctx context.Context) error {
	select {
	case <-u.prev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end ends the turn. The next turn begins when all earlier ones have ended as well.
func (u turn) end() {
	select {
	case <-u.prev:
		u.finish()
	default:
		go func() {
			<-u.prev
			u.finish()
		}()
	}
}

func (u turn) finish() {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	close(u.own)
	if u.of.last[u.key] == u.own {
		delete(u.of.last, u.key)
	}
}
