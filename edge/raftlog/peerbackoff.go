package raftlog

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// peerBackoff delays entries for a node that does not answer until it answers a heartbeat.
//
// Raft doubles its pause after each failed attempt, up to ten seconds, and cannot be told
// that a node is back. The node would get no entries for that long, and the loss of one more
// node in that time would stop the cluster. Raft sends heartbeats all the time. So an
// attempt whose failure would cause a long pause waits for an answer to a heartbeat.
type peerBackoff struct {
	stop <-chan struct{} // closed when the log is closed

	mu          sync.Mutex
	unreachable map[raft.ServerID]*unreachablePeer
}

// unreachablePeer is a node that the last attempt to send entries did not reach.
type unreachablePeer struct {
	failures int           // in a row
	answered chan struct{} // closed when the node answers a heartbeat or takes entries
}

const (
	// undelayedFailures is the number of failures in a row without a wait; raft's pauses
	// are up to 160 ms then.
	undelayedFailures = 5
	// waitMax bounds the wait before an attempt. Raft stops sending to a removed node, and
	// in an old term, only between two attempts.
	waitMax = time.Minute
)

func newPeerBackoff(stop <-chan struct{}) *peerBackoff {
	return &peerBackoff{stop: stop, unreachable: map[raft.ServerID]*unreachablePeer{}}
}

// wait blocks until entries may be sent to that node: at once if it has answered last, else until it answers a heartbeat, at most for
// waitMax.
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

// report records whether entries have reached that node. If they have, those that wait go on.
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

// heartbeatAnswered records that the node has answered a heartbeat, and lets entries for it
// pass.
func (b *peerBackoff) heartbeatAnswered(id raft.ServerID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if peer := b.unreachable[id]; peer != nil {
		close(peer.answered)
		peer.answered = make(chan struct{})
	}
}
