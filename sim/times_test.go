package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/replication"
	"lockstep/sim/consensus"
	"lockstep/sim/longtest"
)

// leadersOfMixedTimes runs a cluster whose daemons start with old and new programs, and loses messages. It returns the step at which two
// nodes have the lease; 0: none. short is the number of steps at which a node uses shorter times than an old program.
func leadersOfMixedTimes(seed uint64, m consensus.Mutations) (step uint64, short int) {
	w := New(Options{Seed: seed, Nodes: 3, Checkers: []Checker{}})
	w.log.Mutations = m
	w.times.mix(seed)
	w.injector.clusterRates = ClusterFaultRates{Partition: 300, Slow: 300, Pause: 300, Transfer: 1000}
	w.injector.rates.Crash = 800
	step = w.stepUntilTwoLead(6000, func(n *node) {
		if n.cluster.replica.Active.HeartbeatTimeout() < replication.ElectionMin {
			short++
		}
	})
	return step, short
}

// In a rolling upgrade the nodes have programs that know different times of elections. No two nodes have the lease at once.
func TestOneLeaseAtATimeInAnUpgrade(t *testing.T) {
	used := 0
	for seed := range longtest.Times(uint64(60)) {
		step, short := leadersOfMixedTimes(seed, consensus.Mutations{})
		require.Zero(t, step, "seed %d", seed)
		used += short
	}
	require.NotZero(t, used, "no node has used the short times")
}

// A node that waits only as long as its own program knows, and ignores the lease of the leader that it follows, lets two nodes have the
// lease.
func TestOwnTimesAreSeen(t *testing.T) {
	for seed := range uint64(2000) {
		if step, _ := leadersOfMixedTimes(seed, consensus.Mutations{OwnTimes: true}); step > 0 {
			t.Logf("seed %d, step %d", seed, step)
			return
		}
	}
	require.Fail(t, "two leases at once were not seen")
}
