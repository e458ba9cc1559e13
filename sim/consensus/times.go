package consensus

import (
	"time"

	"lockstep/core/replication"
)

// lease is the duration of this node's lease in a term in which it leads.
func (n *Active) lease(term uint64) time.Duration {
	if n.declared == term {
		return max(n.times.Lease, n.Times.Lease)
	}
	return replication.Lease
}

// heartbeat is the heartbeat timeout of this node: that of the leader whose request it has acknowledged last.
func (n *Active) heartbeat() time.Duration {
	switch {
	case n.consensus.Mutations.OwnTimes:
		return n.Times.Heartbeat
	case n.declared > 0 && n.declared == n.followed:
		return max(n.times.Heartbeat, n.Times.Heartbeat)
	}
	return replication.ElectionMin
}

// pause is the time between two ticks. Raft ticks more often.
func (n *Active) pause() time.Duration { return n.heartbeat() / 5 }

// SetTimes notes a declaration, and shortens the lease of this node if it leads in that term.
func (n *Active) SetTimes(term uint64, t replication.Times) {
	if term < n.declared || n.Times == replication.InitialTimes() {
		return // a program that does not know declarations ignores them
	}
	n.declared, n.times = term, t
	n.followed = max(n.followed, term)
	if n.role != roleLeader || n.term != term || n.leaseUntil.IsZero() {
		return
	}
	if until := n.majorityContact(func(p *peer) time.Time { return p.acked }).Add(n.lease(term)); until.Before(n.leaseUntil) {
		n.leaseUntil = until
		n.Renewed(until)
	}
}

// HeartbeatTimeout is the heartbeat timeout in force.
func (n *Active) HeartbeatTimeout() time.Duration { return n.heartbeat() }
