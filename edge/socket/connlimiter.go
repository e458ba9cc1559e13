package socket

import (
	"container/list"
	"sync"
)

// connLimiter bounds the open connections of a listener. At the limit a new connection
// evicts an idle one: of the process with the most connections, the one that has been idle
// for longest. So a program that leaks connections loses its own, and job processes, each of
// which has few, keep theirs. A connection with a request in progress is never evicted.
type connLimiter struct {
	limit int // 0: any number

	mu        sync.Mutex
	open      map[*streamConn]*list.Element // nil: a request is in progress
	idle      *list.List                    // of *streamConn, the longest idle first
	openByPID map[int]int                   // number of open connections, by the pid of the client
}

func newConnLimiter(limit int) *connLimiter {
	return &connLimiter{limit: limit, open: map[*streamConn]*list.Element{}, idle: list.New(), openByPID: map[int]int{}}
}

// admit adds a connection, if there is room or an idle one can be evicted.
func (l *connLimiter) admit(c *streamConn) bool {
	l.mu.Lock()
	victim := (*streamConn)(nil)
	if l.limit > 0 && len(l.open) >= l.limit {
		if victim = l.victim(); victim == nil {
			l.mu.Unlock()
			return false
		}
		l.remove(victim)
	}
	l.open[c] = l.idle.PushBack(c)
	l.openByPID[c.peer.pid]++
	l.mu.Unlock()
	if victim != nil {
		victim.evict()
	}
	return true
}

// evictOne ends one idle connection, if there is one.
func (l *connLimiter) evictOne() {
	l.mu.Lock()
	victim := l.victim()
	if victim != nil {
		l.remove(victim)
	}
	l.mu.Unlock()
	if victim != nil {
		victim.evict()
	}
}

// victim returns the connection to evict; nil: all are busy. The caller holds the mutex.
func (l *connLimiter) victim() *streamConn {
	var found *streamConn
	for e := l.idle.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*streamConn); ok && (found == nil || l.openByPID[c.peer.pid] > l.openByPID[found.peer.pid]) {
			found = c
		}
	}
	return found
}

// remove removes a connection. An evicted connection is removed before it closes. The caller
// holds the mutex.
func (l *connLimiter) remove(c *streamConn) {
	element, known := l.open[c]
	if !known {
		return
	}
	if element != nil {
		l.idle.Remove(element)
	}
	delete(l.open, c)
	if l.openByPID[c.peer.pid]--; l.openByPID[c.peer.pid] == 0 {
		delete(l.openByPID, c.peer.pid)
	}
}

// connClosed records that a connection is closed.
func (l *connLimiter) connClosed(c *streamConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
}

// markBusy records that a request was read and is not answered yet.
func (l *connLimiter) markBusy(c *streamConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element := l.open[c]; element != nil {
		l.idle.Remove(element)
		l.open[c] = nil
	}
}

// markIdle records that the answer was sent.
func (l *connLimiter) markIdle(c *streamConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, known := l.open[c]; known && element == nil {
		l.open[c] = l.idle.PushBack(c)
	}
}
