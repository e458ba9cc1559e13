package main

import (
	"flag"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	clusterKills = flag.Int("cluster.kills", 5, "how often the cluster test kills the master")
	clusterHands = flag.Int("cluster.handovers", 2, "how often the cluster test stops the master in order")
	clusterSeed  = flag.Uint64("cluster.seed", 1, "seed of the cluster tests' load; 0: a new one")
)

func seed(t testing.TB) uint64 {
	seed := *clusterSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-cluster.seed=%d", seed)
	return seed
}

// The test kills the master repeatedly while users submit through all nodes. Every
// acknowledged job exists on all nodes, has ended once, and has run at most once.
func TestClusterSurvivesKillsOfTheMaster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	l := c.startLoad(6, seed(t))
	l.awaitAcks(10)
	var gaps, starts []time.Duration
	for range *clusterKills {
		master := c.master()
		killed := time.Now()
		master.crash()
		gaps = append(gaps, l.nextAck(killed))
		starts = append(starts, l.nextStart(killed))
		master.start()
		c.awaitUp(master)
		l.awaitAcks(10)
	}
	l.awaitEnds()
	l.check()
	t.Logf("from the kill to the next acknowledged submission: %s", spread(gaps))
	t.Logf("from the kill to the next start of a job submitted since: %s", spread(starts))
}

// A master that is stopped in order transfers the mastership.
func TestClusterHandsOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	l := c.startLoad(6, seed(t))
	l.awaitAcks(10)
	var gaps []time.Duration
	for range *clusterHands {
		master := c.master()
		began := time.Now()
		master.signal(syscall.SIGTERM)
		gap := l.nextAck(began)
		require.Less(t, gap, patience)
		gaps = append(gaps, gap)
		<-master.done
		require.Zero(t, master.cmd.ProcessState.ExitCode())
		master.start()
		c.awaitUp(master)
		l.awaitAcks(10)
	}
	l.awaitEnds()
	l.check()
	t.Logf("from SIGTERM to the next acknowledged submission: %s", spread(gaps))
}
