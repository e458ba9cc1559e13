package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"lockstep/edge/peer"
)

var (
	clusterChanges = flag.Int("cluster.changes", 3000, "jobs that are submitted while a node is away")
	clusterEntries = flag.Int("cluster.entries", 0, "submissions of one job each, besides; more than 10240 make a snapshot needed")
)

// pause adds a filter rule that pauses new jobs until the rule is removed.
func (u *user) pause() (filter string) {
	u.c.t.Helper()
	u.must("ReplaceFilter", &filter, nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	return filter
}

// submitInBatches submits jobs that do nothing, in batches of lot jobs, by several users.
func (c *cluster) submitInBatches(jobs, lot int) {
	c.t.Helper()
	const users = 8
	lots := make(chan int, jobs/lot+1)
	for left := jobs; left > 0; left -= lot {
		lots <- min(lot, left)
	}
	close(lots)
	failed := make([]error, users)
	var all sync.WaitGroup
	for i := range users {
		u := c.user(0)
		u.at = indexOf(c, c.master())
		all.Go(func() {
			defer u.close()
			for size := range lots {
				list := make([][]op, size)
				for k := range list {
					list[k] = []op{command("true")}
				}
				ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
				_, err := u.submitMany(ctx, list)
				cancel()
				if err != nil {
					failed[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range failed {
		require.NoError(c.t, err)
	}
}

// wipe removes all data of a node, as if its disk was replaced, and joins it to the cluster as
// a new node.
func (c *cluster) wipe(m *member) {
	c.t.Helper()
	m.end()
	master := c.master()
	master.cli("node", "remove", m.name)
	c.newToken(master)
	require.NoError(c.t, os.Rename(m.path("lib", "raft"), m.path("raft.gone")))
	m.join(master, c.token, "--discard-queue")
}

// A node that was down for long catches up, and so does a node that has lost all its data.
// Each of the two can then be the master.
func TestClusterCatchesUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	u.pause()
	stopped := c.others(c.master())[0]
	stopped.end()
	began := time.Now()
	c.submitInBatches(*clusterChanges, 30) // more entries than one message to the node carries
	c.submitInBatches(*clusterEntries, 1)
	t.Logf("%d jobs submitted in %s", *clusterChanges+*clusterEntries, time.Since(began))
	began = time.Now()
	stopped.start()
	c.awaitUp(stopped)
	c.awaitEqual()
	t.Logf("caught up and compared after %s", time.Since(began))
	c.promote(stopped)
	stopped.awaitJobs(*clusterChanges + *clusterEntries)

	wiped := c.others(stopped)[0]
	c.wipe(wiped)
	began = time.Now()
	wiped.start()
	c.awaitVotes(3)
	c.awaitUp(wiped)
	c.awaitEqual()
	t.Logf("the wiped node has caught up, has a vote and was compared after %s", time.Since(began))
	c.promote(wiped)
	wiped.awaitJobs(*clusterChanges + *clusterEntries)
}

// promote makes a node the master.
func (c *cluster) promote(m *member) {
	c.t.Helper()
	c.awaitBehind(m, 0)
	out, stderr, code := c.master().tryCLI("node", "promote", m.name)
	assert.Zero(c.t, code, "node promote: %s%s", out, stderr)
	c.eventually("the node does not become master", func() error {
		return m.direct("QueryConfigValues", nil, []string{"drain_flag"})
	})
}

// awaitJobs waits until the master has all jobs.
func (m *member) awaitJobs(jobs int) {
	m.t.Helper()
	var rows [][]any
	require.NoError(m.t, m.direct("QueryJobs", &rows, nil, []string{"id"}))
	require.Len(m.t, rows, jobs)
}

// A client that watches a job through a candidate sees the end of the job, although the master
// has changed.
func TestClusterWatchSurvivesFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	filter := u.pause()
	id := u.submit(command("echo", "seen by all"))
	master := c.master()
	candidate := c.others(master)[0]
	program, err := lockstepProgram()
	require.NoError(t, err)
	out, err := os.Create(filepath.Join(c.shared, "watch"))
	require.NoError(t, err)
	defer out.Close()
	watch := exec.Command(program, "--socket", candidate.socket(), "watch", "--json", strconv.FormatInt(id, 10))
	watch.Stdout, watch.Stderr = out, out
	require.NoError(t, watch.Start())
	c.eventually("lockstep watch says nothing", func() error {
		if !strings.Contains(c.read("watch"), "queued") {
			return errors.New(c.read("watch"))
		}
		return nil
	})
	waited := make(chan error, 1)
	go func() { waited <- watch.Wait() }()
	told := make(chan string, 1)
	go func() { told <- c.waitForEnd(indexOf(c, candidate), id) }()

	master.crash()
	next := c.master()
	u = c.user(indexOf(c, next))
	u.must("DeleteFilter", nil, filter)
	u.awaitStatus(id, "success")
	select {
	case err := <-waited:
		require.NoError(t, err, c.read("watch"))
	case <-time.After(patience):
		_ = watch.Process.Kill()
		<-waited
		t.Fatalf("lockstep watch does not end: %s", c.read("watch"))
	}
	require.Contains(t, c.read("watch"), "seen by all")
	require.Contains(t, c.read("watch"), `"end"`)
	require.Equal(t, "success", <-told)
}

// waitForEnd waits through one node for the end of a job, as clients do.
func (c *cluster) waitForEnd(at int, id int64) string {
	u := c.user(at)
	defer u.close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for status := ""; ctx.Err() == nil; {
		var raw []any
		if err := u.once("WaitForJobChange", &raw, id, []string{"status"}, []string{status}, nil, 5); err != nil || len(raw) != 2 {
			<-time.After(20 * time.Millisecond)
			continue
		}
		values, _ := raw[0].([]any)
		if len(values) == 1 {
			status, _ = values[0].(string)
		}
		if isFinal(status) {
			return status
		}
	}
	return ""
}

// A node that was down follows a leader that joined the cluster meanwhile and is missing from
// the log of that node.
func TestClusterIsLedByANewNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	away := c.others(master)[0]
	away.end()
	c.newToken(master)
	var joined *member
	for i, address := range loopback(t, 2) {
		joined = c.newMember("new"+strconv.Itoa(i), address)
		joined.join(master, c.token)
		joined.start()
	}
	c.awaitVotes(5)
	c.promote(joined)
	u := c.user(indexOf(c, joined))
	id := u.submit(command("true"))
	away.start()
	c.awaitUp(away)
	c.awaitBehind(away, 0)
	u.awaitStatus(id, "success")
	c.awaitEqual()
}

// A queue can be made the queue of a cluster only when none of its jobs runs.
func TestClusterOfAQueueWithARunningJob(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, shared: t.TempDir()}
	t.Cleanup(func() { c.remove() })
	m := c.newMember("n1", loopback(t, 1)[0])
	m.daemon.start() // alone
	m.up = true
	u := c.user(0)
	id := u.submit(c.workerOp("old"))
	u.close()
	pid := c.awaitWorker("old")
	m.end()
	m.cli("node", "init", "--address", m.address, "--name", m.name, "--data-dir", m.path("lib"))
	require.ErrorContains(t, m.tryStart(), "job 1, started before this node belonged to its cluster, still runs here")
	c.open()
	c.awaitDeath(pid)
	c.eventually("the daemon does not start", m.tryStart)
	c.awaitVotes(1)
	u.awaitStatus(id, "success")
}

// When most nodes are lost for ever, the operator has the last node continue alone, and new
// nodes join it.
func TestClusterRecovers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	filter := u.pause()
	const jobs = 20
	c.submitInBatches(jobs, 1)
	c.awaitEqual()
	last := c.nodes[1]
	for _, m := range c.others(last) {
		m.crash()
	}
	recover := []string{"node", "recover", "--data-dir", last.path("lib")}
	_, stderr, code := last.tryCLI(recover...)
	require.Equal(t, 2, code, stderr)
	require.Contains(t, stderr, "nothing was done")
	_, stderr, code = last.tryCLI(append(recover, "--yes-i-know")...)
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "stop the daemon first")
	last.end()
	last.cli(append(recover, "--yes-i-know")...)
	last.start()
	c.nodes = []*member{last}
	c.awaitVotes(1)
	nodes, err := last.list()
	require.NoError(t, err)
	require.Equal(t, last.name, nodes.Master)
	var rows [][]any
	require.NoError(t, last.direct("QueryJobs", &rows, nil, []string{"id"}))
	require.Len(t, rows, jobs)
	identity, err := peer.LoadIdentity(last.path("lib"))
	require.NoError(t, err)
	require.Equal(t, []string{"n1", "n3"}, identity.Lost, "who is kept out")

	last.end() // the instructions were for one start only
	last.start()
	c.newToken(last)
	for i, address := range loopback(t, 2) {
		m := c.newMember("new"+strconv.Itoa(i), address)
		m.join(last, c.token)
		m.start()
	}
	c.awaitVotes(3)
	c.awaitEqual()
	u = c.user(1)
	u.must("DeleteFilter", nil, filter)
	u.awaitStatus(1, "success")
	u.awaitStatus(u.submit(command("true")), "success")
	c.awaitEqual()
}
