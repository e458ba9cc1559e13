package consensus

import "time"

// Rests reports whether only heartbeats happen until something from outside does: a node leads for certain, all nodes that run follow it
// and have applied its log, and no message is on its way.
func (c *Log) Rests() bool {
	leader := c.leader()
	if leader == nil || !leader.Leads() || !c.clock.Now().After(c.latestArrival) {
		return false
	}
	if len(leader.waiting)+len(leader.changes) > 0 || leader.transferTo != "" {
		return false
	}
	for _, r := range c.replicas {
		n := r.Active
		if n == nil {
			continue
		}
		behind := r.Last() != leader.Last() || n.commit != leader.commit || n.bridge.applied != leader.commit
		elsewhere := r.term != leader.term || n.leader != leader.name || !r.Voter(r.name)
		if behind || elsewhere || r.restoring != nil || n.thread.Busy() || c.Partitioned(r.name, leader.name) || c.Delay(r.name) > 0 {
			return false
		}
	}
	return leader.commit == leader.Last()
}

// leader is the replica that leads; nil: none does, or several do.
func (c *Log) leader() (leader *Active) {
	for _, r := range c.replicas {
		switch {
		case r.Active == nil || r.Active.role != roleLeader:
		case leader != nil:
			return nil
		default:
			leader = r.Active
		}
	}
	return leader
}

// Skip does what the heartbeats have done while the nodes have rested for d: what they know of each other is as fresh as before, and the
// lease is renewed.
func (c *Log) Skip(d time.Duration) {
	leader := c.leader()
	for _, r := range c.replicas {
		if r.Active == nil {
			continue
		}
		r.Active.leaderHeard = r.Active.leaderHeard.Add(d)
		r.Active.electionDue = r.Active.electionDue.Add(d)
		if p := leader.peers[r.name]; p != nil {
			p.acked = p.acked.Add(d)
		}
	}
	leader.leaseUntil = leader.leaseUntil.Add(d)
	leader.Renewed(leader.leaseUntil)
}
