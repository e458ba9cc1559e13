package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// ClusterFaults are how often things go wrong with several nodes: 1 in so many steps, 0
// for never.
type ClusterFaults struct {
	Partition int
	Slow      int // a node's messages take longer
	Pause     int // of a daemon
	Wipe      int // of a disk
	Transfer  int // of the mastership
	Away      int // a daemon that has ended stays away for long, per end
	LoseQueue int // queue/ is gone when the machine is back, and raft/ is not
}

// DrawClusterFaults chooses rates for the kinds allowed, as DrawFaults does.
func DrawClusterFaults(rng *rand.Rand, allowed map[string]bool) ClusterFaults {
	draw := drawRates(rng, allowed)
	return ClusterFaults{
		Partition: draw("partition", 400, 6000),
		Slow:      draw("partition", 400, 6000),
		Pause:     draw("pause", 300, 6000),
		Wipe:      draw("wipe", 1500, 10000),
		Transfer:  draw("transfer", 500, 6000),
		Away:      draw("crash", 3, 10),
		LoseQueue: draw("lost-queue", 1500, 10000),
	}
}

// partition cuts the nodes into two groups, for a while.
func (c *chaos) partition() {
	w := c.world
	text := ""
	for _, n := range w.nodes {
		n.member.group = c.draw(2)
		text += " " + n.name + []string{" here", " there"}[n.member.group]
	}
	w.trace.say(TopicFault, "partition:%s", text)
	c.later(15*time.Second, c.healPartition)
}

func (c *chaos) healPartition() {
	for _, n := range c.world.nodes {
		n.member.group = 0
	}
	c.world.trace.say(TopicFault, "the partition is over")
}

// heal ends what lasts.
func (c *chaos) heal() {
	if c.world.truth == nil {
		return
	}
	c.healPartition()
	for _, n := range c.world.nodes {
		n.member.slow = 0
		if n.daemon != nil && n.daemon.life.paused {
			c.world.clock.resume(n.daemon.life, c.world.steps)
		}
	}
}

// longer is how much longer than usual a daemon stays away.
func (c *chaos) longer(n *node) time.Duration {
	if !n.clustered() || !c.hits(strikeAway, c.cluster.Away) {
		return 0
	}
	return time.Duration(c.draw(60)) * time.Second
}

// whole: all nodes are voters, and all run. Only then may one of them be wiped, or lose
// its queue.
func (w *World) whole() bool {
	for _, n := range w.nodes {
		if n.daemon == nil || n.member.wiped {
			return false
		}
		for _, other := range w.nodes {
			if !n.member.replica.voter(other.name) {
				return false
			}
		}
	}
	return true
}

// master is the node whose daemon has the master part of the tree; nil: there is none.
func (w *World) master() *node {
	for _, n := range w.nodes {
		if n.daemon != nil && n.daemon.tree != nil && (!n.clustered() || n.member.replica.runs.Leads()) {
			return n
		}
	}
	return nil
}

// appliedAll: the node, which has a daemon, has on its disk all that is committed.
func (n *node) appliedAll() bool {
	if !n.clustered() {
		return true
	}
	r := n.member.replica
	return r.restoring == nil && r.runs.desk.applied >= n.world.log.known
}

// settled: the same, and nothing is on its way to be committed.
func (n *node) settled() bool {
	return n.appliedAll() && (!n.clustered() || n.member.replica.last() == n.world.log.known)
}

// caughtUp: it has all that the others have.
func (n *node) caughtUp() error {
	switch {
	case !n.clustered():
		return nil
	case n.daemon == nil:
		return fmt.Errorf("%s has no daemon", n.name)
	case !n.appliedAll():
		return fmt.Errorf("%s has not applied everything", n.name)
	case !n.member.replica.voter(n.name):
		return fmt.Errorf("%s has no vote", n.name)
	}
	return nil
}
