package raftlog

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// peerBackoff holds back entries for nodes that do not answer until they are heard again.
//
// Raft doubles its pause after each attempt that failed, up to ten seconds, and cannot
// be told that a node is back: it would be without entries for that long, and one node
// more that is lost meanwhile would stop the cluster. Heartbeats are sent all the time.
// So an attempt that would lead to a long pause is not made before one is answered.
type peerBackoff struct {
	stop <-chan struct{} // there are no more attempts

	mu          sync.Mutex
	unreachable map[raft.ServerID]*unreachablePeer
}

// unreachablePeer is a node to which entries could not be sent.
type unreachablePeer struct {
	failures int           // one after another
	answered chan struct{} // closed when it has answered anything
}

const (
	// undelayedFailures lead to pauses up to 160 ms.
	undelayedFailures = 5
	// waitMax is for how long an attempt is held. Raft ends what it does for a node
	// that was removed, or in a term that is over, only between two attempts.
	waitMax = time.Minute
)

func newPeerBackoff(stop <-chan struct{}) *peerBackoff {
	return &peerBackoff{stop: stop, unreachable: map[raft.ServerID]*unreachablePeer{}}
}

// wait returns when entries may be sent to that node.
func (b *peerBackoff) wait(id raft.ServerID) {
	b.mu.Lock()
	peer := b.unreachable[id]
	if peer == nil || peer.failures < undelayedFailures {
		b.mu.Unlock()
		return
	}
	answered := peer.answered
	b.mu.Unlock()
	limit := time.NewTimer(waitMax)
	defer limit.Stop()
	select {
	case <-answered:
	case <-limit.C:
	case <-b.stop:
	}
}

// report: entries have reached that node, or not.
func (b *peerBackoff) report(id raft.ServerID, reached bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	peer := b.unreachable[id]
	switch {
	case reached:
		if peer != nil {
			close(peer.answered)
			delete(b.unreachable, id)
		}
	case peer == nil:
		b.unreachable[id] = &unreachablePeer{failures: 1, answered: make(chan struct{})}
	default:
		peer.failures++
	}
}

// heartbeatAnswered: that node has answered a heartbeat.
func (b *peerBackoff) heartbeatAnswered(id raft.ServerID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if peer := b.unreachable[id]; peer != nil {
		close(peer.answered)
		peer.answered = make(chan struct{})
	}
}
