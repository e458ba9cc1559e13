package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/persistence"
)

var clusterStable = flag.Duration("cluster.stable", 0, "how long the cluster test watches for elections under load; 0: the test does not run")

// While all cores are busy, the disk is written to, and jobs run, the master stays the master, its lease does not lapse, and no job
// ends for the loss of its node. The run directories are on a tmpfs, as /run is.
func TestClusterIsStableUnderLoad(t *testing.T) {
	if *clusterStable == 0 {
		t.Skip("NOT RUN: it takes the time of the flag -cluster.stable, which is 0")
	}
	c := newClusterAt(t, loopback(t, 3), func(_ int, m *member) { m.runOnTmpfs() })
	master := c.master()
	lease, err := persistence.OpenLease(master.path("run"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), *clusterStable)
	defer cancel()
	var busy sync.WaitGroup
	defer busy.Wait()
	defer cancel()
	for range runtime.NumCPU() {
		busy.Go(func() { _ = exec.CommandContext(ctx, "sh", "-c", "while :; do :; done").Run() })
	}
	busy.Go(func() {
		for ctx.Err() == nil {
			if err := writeAndSync(master.path("filler")); err != nil {
				t.Errorf("the disk cannot be written: %v", err)
				return
			}
		}
	})
	l := c.startLoad(6, seed(t))
	for began := time.Now(); ctx.Err() == nil; <-time.After(time.Millisecond) {
		if !lease.IsValid() {
			cancel()
			l.end()
			t.Fatalf("the lease has lapsed at %s, %s after the begin", time.Now(), time.Since(began))
		}
	}
	l.awaitEnds()
	l.check()
	require.Equal(t, master, c.master())
	require.Equal(t, 1, c.elections(), "elections")
	for id, status := range l.accepted {
		require.Equal(t, "success", status, "job %d", id)
	}
}

// runOnTmpfs makes the node's run directory a directory in /dev/shm.
func (m *member) runOnTmpfs() {
	m.t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ls")
	require.NoError(m.t, err)
	m.t.Cleanup(func() {
		m.kill()
		m.endJobs() // it finds them in the run directory
		_ = os.RemoveAll(dir)
	})
	require.NoError(m.t, os.Symlink(dir, m.path("run")))
}

// writeAndSync replaces a file by one of 64 MiB that is on the disk.
func writeAndSync(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for range 64 {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// elections counts how often a node became the master, by the logs of the daemons.
func (c *cluster) elections() (elected int) {
	for _, m := range c.nodes {
		elected += strings.Count(m.logged(), "this node is the master")
	}
	return elected
}
