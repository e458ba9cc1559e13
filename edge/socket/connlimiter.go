package socket

import (
	"container/list"
	"sync"
)

// connLimiter is the connections of a listener that are open. When there are as many as
// there may be, one that is idle makes room: of the process that has the most, the one
// that has been idle for longest. So a program that leaks connections ends its own, and
// job processes, each of which has few, get theirs. A connection with a request in hand
// is never ended.
type connLimiter struct {
	limit int // 0: any number

	mu        sync.Mutex
	open      map[*streamConn]*list.Element // nil: a request is in hand
	idle      *list.List                    // of *streamConn, the longest idle first
	openByPID map[int]int                   // how many are open, by the pid of the client
}

func newConnLimiter(limit int) *connLimiter {
	return &connLimiter{limit: limit, open: map[*streamConn]*list.Element{}, idle: list.New(), openByPID: map[int]int{}}
}

// admit adds a connection, if there is room or if one makes room.
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

// evictOne ends one connection that is idle, if there is one.
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

// victim needs the mutex; nil: all are busy.
func (l *connLimiter) victim() *streamConn {
	var found *streamConn
	for e := l.idle.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*streamConn); ok && (found == nil || l.openByPID[c.peer.pid] > l.openByPID[found.peer.pid]) {
			found = c
		}
	}
	return found
}

// remove needs the mutex. A connection that was ended to make room is not there any
// more when it closes.
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

// connClosed: a connection is closed.
func (l *connLimiter) connClosed(c *streamConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
}

// markBusy: a request has come whole, and is to be answered.
func (l *connLimiter) markBusy(c *streamConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element := l.open[c]; element != nil {
		l.idle.Remove(element)
		l.open[c] = nil
	}
}

// markIdle: the answer was sent.
func (l *connLimiter) markIdle(c *streamConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, known := l.open[c]; known && element == nil {
		l.open[c] = l.idle.PushBack(c)
	}
}
