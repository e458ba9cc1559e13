package socket

import (
	"container/list"
	"sync"
)

// roster is the connections of a listener that are open. When there are as many as
// there may be, one that is idle makes room: of the process that has the most, the one
// that has been idle for longest. So a program that leaks connections ends its own, and
// job processes, each of which has few, get theirs. A connection with a request in hand
// is never ended.
type roster struct {
	most int // 0: any number

	mu   sync.Mutex
	open map[*streamConn]*list.Element // nil: a request is in hand
	idle *list.List                    // of *streamConn, the longest idle first
	of   map[int]int                   // how many are open, by the pid of the client
}

func newRoster(most int) *roster {
	return &roster{most: most, open: map[*streamConn]*list.Element{}, idle: list.New(), of: map[int]int{}}
}

// admit adds a connection, if there is room or if one makes room.
func (r *roster) admit(c *streamConn) bool {
	r.mu.Lock()
	victim := (*streamConn)(nil)
	if r.most > 0 && len(r.open) >= r.most {
		if victim = r.victim(); victim == nil {
			r.mu.Unlock()
			return false
		}
		r.remove(victim)
	}
	r.open[c] = r.idle.PushBack(c)
	r.of[c.peer.pid]++
	r.mu.Unlock()
	if victim != nil {
		victim.evict()
	}
	return true
}

// makeRoom ends one connection that is idle, if there is one.
func (r *roster) makeRoom() {
	r.mu.Lock()
	victim := r.victim()
	if victim != nil {
		r.remove(victim)
	}
	r.mu.Unlock()
	if victim != nil {
		victim.evict()
	}
}

// victim needs the mutex; nil: all are busy.
func (r *roster) victim() *streamConn {
	var found *streamConn
	for e := r.idle.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*streamConn); ok && (found == nil || r.of[c.peer.pid] > r.of[found.peer.pid]) {
			found = c
		}
	}
	return found
}

// remove needs the mutex. A connection that was ended to make room is not there any
// more when it closes.
func (r *roster) remove(c *streamConn) {
	place, known := r.open[c]
	if !known {
		return
	}
	if place != nil {
		r.idle.Remove(place)
	}
	delete(r.open, c)
	if r.of[c.peer.pid]--; r.of[c.peer.pid] == 0 {
		delete(r.of, c.peer.pid)
	}
}

// left: a connection is closed.
func (r *roster) left(c *streamConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(c)
}

// busy: a request has come whole, and is to be answered.
func (r *roster) busy(c *streamConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if place := r.open[c]; place != nil {
		r.idle.Remove(place)
		r.open[c] = nil
	}
}

// rests: the answer was sent.
func (r *roster) rests(c *streamConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if place, known := r.open[c]; known && place == nil {
		r.open[c] = r.idle.PushBack(c)
	}
}
