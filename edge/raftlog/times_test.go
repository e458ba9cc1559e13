package raftlog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/replication"
	"lockstep/edge/raftlog"
	"lockstep/sim/longtest"
)

// The declaration of a leader shortens the heartbeat timeout of the nodes that follow it in that term, and of no others: the next leader
// may be of an older version.
func TestTimesHoldForOneTerm(t *testing.T) {
	longtest.Skip(t)
	c := newCluster(t)
	c.timing = raftlog.Timing{Heartbeat: 600 * time.Millisecond, Election: 800 * time.Millisecond}
	c.shortest = replication.Times{Heartbeat: 300 * time.Millisecond, Lease: 200 * time.Millisecond}
	leader, others := c.threeNodes(t)
	term, _ := leader.log.State()
	require.Equal(t, c.timing.Heartbeat, others[0].log.HeartbeatTimeout())
	declared := replication.Times{Heartbeat: 100 * time.Millisecond, Lease: 50 * time.Millisecond}
	for _, n := range []*recorder{leader, others[0], others[1]} {
		n.log.SetTimes(term, declared)
		require.Equal(t, c.shortest.Heartbeat, n.log.HeartbeatTimeout(), "not below what the node knows")
	}
	others[0].log.SetTimes(term-1, c.shortest)
	require.Equal(t, c.shortest.Heartbeat, others[0].log.HeartbeatTimeout(), "an earlier term's has no effect")
	c.Isolate("n1")
	var next *recorder
	c.Until("another node leads", func() bool {
		for _, n := range others {
			if n.log.Leads() {
				next = n
			}
		}
		return next != nil
	})
	c.Heal()
	follower, name := others[0], "n3"
	if next == follower {
		follower, name = others[1], "n2"
	}
	c.Until("both follow it", func() bool { return follower.log.Leader() == name && leader.log.Leader() == name })
	require.Equal(t, c.timing.Heartbeat, follower.log.HeartbeatTimeout())
	require.Equal(t, c.timing.Heartbeat, leader.log.HeartbeatTimeout())
	later, _ := next.log.State()
	follower.log.SetTimes(later, declared)
	require.Equal(t, c.shortest.Heartbeat, follower.log.HeartbeatTimeout())
}

// The other nodes elect a leader when the former one is overdue. The test prints the time, in which raft by itself would need one to
// three heartbeat timeouts.
func TestADeadLeaderIsReplaced(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	c := newCluster(t)
	c.timing = raftlog.Timing{Heartbeat: 2 * time.Second, Election: 2 * time.Second}
	_, others := c.threeNodes(t)
	c.Isolate("n1")
	began := time.Now()
	c.Until("another node leads", func() bool { return others[0].log.Leads() || others[1].log.Leads() })
	t.Log(time.Since(began))
}
