package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// ClusterFaultRates are the rates of faults of a cluster: 1 in so many steps, 0 for never.
type ClusterFaultRates struct {
	Partition   int
	Slow        int // a node's messages take longer
	Pause       int // of a daemon
	Wipe        int // of a disk
	Transfer    int // of the mastership
	LateRestart int // a daemon that has ended stays down for long, per end
	LoseQueue   int // queue/ is missing after a reboot, and raft/ is not
	OlderQueue  int // queue/ is copied, or is an earlier copy after a reboot; per step
}

// drawClusterFaultRates draws rates for the allowed kinds, as drawFaultRates does.
func drawClusterFaultRates(rng *rand.Rand, allowed map[string]bool) ClusterFaultRates {
	draw := drawRates(rng, allowed)
	return ClusterFaultRates{
		Partition:   draw("partition", 400, 6000),
		Slow:        draw("partition", 400, 6000),
		Pause:       draw("pause", 300, 6000),
		Wipe:        draw("wipe", 1500, 10000),
		Transfer:    draw("transfer", 500, 6000),
		LateRestart: draw("crash", 3, 10),
		LoseQueue:   draw("lost-queue", 1500, 10000),
		OlderQueue:  draw("older-queue", 500, 5000),
	}
}

// partition cuts the nodes into two groups, for a while.
func (c *injector) partition() {
	w := c.world
	text := ""
	for _, n := range w.nodes {
		n.cluster.group = c.draw(2)
		text += " " + n.name + []string{" here", " there"}[n.cluster.group]
	}
	w.trace.addf(topicFault, "partition:%s", text)
	c.after(15*time.Second, c.healPartition)
}

func (c *injector) healPartition() {
	for _, n := range c.world.nodes {
		n.cluster.group = 0
	}
	c.world.trace.addf(topicFault, "the partition is over")
}

// heal ends the partition and all lasting faults of a cluster.
func (c *injector) heal() {
	if c.world.oracle == nil {
		return
	}
	c.healPartition()
	for _, n := range c.world.nodes {
		n.cluster.slow = 0
		if n.daemon != nil && n.daemon.life.Paused {
			c.world.clock.Resume(n.daemon.life, c.world.kernel)
		}
	}
}

// extraDowntime is the additional time until the daemon of a node of a cluster starts again; 0 unless the fault of a late restart occurs.
func (c *injector) extraDowntime(n *node) time.Duration {
	if !n.clustered() || !c.occurs(faultLateRestart, c.clusterRates.LateRestart) {
		return 0
	}
	return time.Duration(c.draw(60)) * time.Second
}

// allVoting reports whether all nodes are voters and run. Only then may one of them be wiped, or
// lose its queue.
func (w *World) allVoting() bool {
	for _, n := range w.nodes {
		if n.daemon == nil || n.cluster.wiped {
			return false
		}
		for _, other := range w.nodes {
			if !n.cluster.replica.Voter(other.name) {
				return false
			}
		}
	}
	return true
}

// master is the node whose daemon has the master part of the tree; nil: none has.
func (w *World) master() *node {
	for _, n := range w.nodes {
		if n.daemon != nil && n.daemon.tree != nil && (!n.clustered() || n.cluster.replica.Active.Leads()) {
			return n
		}
	}
	return nil
}

// allApplied reports whether a node that runs has every committed entry on its disk.
func (n *node) allApplied() bool {
	if !n.clustered() {
		return true
	}
	r := n.cluster.replica
	return !r.Restoring() && r.Active.AppliedIndex() >= n.world.log.CommittedIndex()
}

// quiescent reports the same, and that no entry is about to be committed.
func (n *node) quiescent() bool {
	return n.allApplied() && (!n.clustered() || n.cluster.replica.Last() == n.world.log.CommittedIndex())
}

// caughtUp returns an error unless the node has everything that the others have.
func (n *node) caughtUp() error {
	switch {
	case !n.clustered():
		return nil
	case n.daemon == nil:
		return fmt.Errorf("%s has no daemon", n.name)
	case !n.allApplied():
		return fmt.Errorf("%s has not applied everything", n.name)
	case !n.cluster.replica.Voter(n.name):
		return fmt.Errorf("%s has no vote", n.name)
	}
	return nil
}
