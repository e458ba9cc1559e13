package raftlog

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// absence holds back entries for nodes that do not answer until they are heard again.
//
// Raft doubles its pause after each attempt that failed, up to ten seconds, and cannot
// be told that a node is back: it would be without entries for that long, and one node
// more that is lost meanwhile would stop the cluster. Heartbeats are sent all the time.
// So an attempt that would lead to a long pause is not made before one is answered.
type absence struct {
	stop <-chan struct{} // there are no more attempts

	mu   sync.Mutex
	away map[raft.ServerID]*away
}

// away is a node to which entries could not be sent.
type away struct {
	failures int           // one after another
	heard    chan struct{} // closed when it has answered anything
}

const (
	// freeFailures lead to pauses up to 160 ms.
	freeFailures = 5
	// heldMax is for how long an attempt is held. Raft ends what it does for a node
	// that was removed, or in a term that is over, only between two attempts.
	heldMax = time.Minute
)

func newAbsence(stop <-chan struct{}) *absence {
	return &absence{stop: stop, away: map[raft.ServerID]*away{}}
}

// hold returns when entries may be sent to that node.
func (a *absence) hold(id raft.ServerID) {
	a.mu.Lock()
	node := a.away[id]
	if node == nil || node.failures < freeFailures {
		a.mu.Unlock()
		return
	}
	heard := node.heard
	a.mu.Unlock()
	limit := time.NewTimer(heldMax)
	defer limit.Stop()
	select {
	case <-heard:
	case <-limit.C:
	case <-a.stop:
	}
}

// sent: entries have reached that node, or not.
func (a *absence) sent(id raft.ServerID, reached bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	node := a.away[id]
	switch {
	case reached:
		if node != nil {
			close(node.heard)
			delete(a.away, id)
		}
	case node == nil:
		a.away[id] = &away{failures: 1, heard: make(chan struct{})}
	default:
		node.failures++
	}
}

// heard: that node has answered a heartbeat.
func (a *absence) heard(id raft.ServerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if node := a.away[id]; node != nil {
		close(node.heard)
		node.heard = make(chan struct{})
	}
}
