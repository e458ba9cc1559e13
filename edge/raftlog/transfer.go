package raftlog

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// A transfer of leadership is raft's exception to the lease: the leader tells a node to start an
// election, and the nodes vote at once although they hear from the leader. The order and the
// requests for votes can arrive at any time, even after the leader has given the transfer up.
// So no time limit makes the lease safe. Two rules do, whatever is late:
//
//   - The node that was told to start an election asks the leader for its vote first. The other
//     nodes get a request to vote at once only after the leader has granted that vote.
//   - The leader ends its lease before its vote leaves the node.
//
// The order holds for the term after the one in which the node has followed that leader, and
// for no other: only that leader can have a lease in the term before.

// transferOrder is the leader's order to this node to start an election and become the leader. The election begins once the leader has
// granted its vote.
type transferOrder struct {
	leader raft.ServerID // it has given the order
	term   uint64        // in which it led

	once    sync.Once
	granted bool
	asked   chan struct{} // closed when the leader has answered the request for its vote
}

func newTransferOrder(leader raft.ServerID, term uint64) *transferOrder {
	return &transferOrder{leader: leader, term: term, asked: make(chan struct{})}
}

// answered records whether the leader has granted its vote; the first answer counts.
func (o *transferOrder) answered(granted bool) {
	o.once.Do(func() {
		o.granted = granted
		close(o.asked)
	})
}

var errLeaderKeepsVote = errors.New("the leader that ordered the transfer has not granted its vote")

// await waits until the leader has granted its vote. It fails if the leader refuses, if the
// leader does not answer within limit, or if done is closed.
func (o *transferOrder) await(limit time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-o.asked:
		if o.granted {
			return nil
		}
	case <-timer.C:
	case <-done:
	}
	return errLeaderKeepsVote
}

// acceptOrder records the order to start an election. It refuses the order of a node that this
// node does not follow: the order is late, and the node may lead no longer.
func (t *transport) acceptOrder(request *raft.TimeoutNowRequest) error {
	leader, term := raft.ServerID(request.ID), t.term()
	if !t.follows(leader, term) {
		return errors.New("the order to start an election is not from the leader that this node follows")
	}
	t.order.Store(newTransferOrder(leader, term))
	return nil
}

// RequestVote asks a node for its vote. In an election that a leader has ordered, the other nodes
// are asked after that leader has granted its vote.
func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress,
	request *raft.RequestVoteRequest, answer *raft.RequestVoteResponse) error {
	if !request.LeadershipTransfer {
		return t.NetworkTransport.RequestVote(id, to, request, answer)
	}
	order := t.order.Load()
	switch {
	case order == nil || order.term+1 != request.Term:
		ordinary := *request // the order was for another term
		ordinary.LeadershipTransfer = false
		request = &ordinary
	case id == order.leader:
		err := t.NetworkTransport.RequestVote(id, to, request, answer)
		order.answered(err == nil && answer.Granted)
		return err
	default:
		if err := order.await(t.electionTimeout, t.done); err != nil {
			return err
		}
	}
	return t.NetworkTransport.RequestVote(id, to, request, answer)
}

// endLeaseWithVote returns the request with an answer that ends the lease of this node before a granted vote leaves it.
func (t *transport) endLeaseWithVote(rpc raft.RPC) raft.RPC {
	answers, raftAnswers := rpc.RespChan, make(chan raft.RPCResponse, 1)
	rpc.RespChan = raftAnswers
	go func() {
		select {
		case answer := <-raftAnswers:
			if vote, is := answer.Response.(*raft.RequestVoteResponse); is && vote.Granted {
				t.lease.cede(vote.Term)
			}
			answers <- answer
		case <-t.done:
		}
	}()
	return rpc
}
