package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
)

// removeFile removes the queue of a node whose daemon is stopped, as if the disk was not
// mounted.
func (d *daemon) removeFile(name string) {
	d.t.Helper()
	require.NoError(d.t, os.Rename(d.path("lib", name), d.path("lost."+filepath.Base(name))))
}

// refusesToStart requires that the daemon ends by itself, and returns its error text.
func (m *member) refusesToStart() string {
	m.t.Helper()
	m.up = false
	err := m.tryStart()
	require.ErrorContains(m.t, err, "the daemon has ended")
	return err.Error()
}

// rejoin follows the instructions in the error text of a daemon without its queue.
func (m *member) rejoin(said string) {
	m.t.Helper()
	commands := regexp.MustCompile(`(mkdir .* && mv .*) && start lockstepd`).FindStringSubmatch(said)
	require.NotNil(m.t, commands, "it names no commands: %s", said)
	out, err := exec.Command("sh", "-c", commands[1]).CombinedOutput()
	require.NoError(m.t, err, "%s", out)
	m.start()
}

// A candidate that has its log but has lost its queue does not start: it would lack the files
// whose log entries the last snapshot has replaced, and give out ids twice. Its error text
// says how to rejoin. A node that has rejoined has all jobs.
func TestClusterNodeWithoutItsQueue(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	filter := u.pause()
	const jobs = 5
	c.submitInBatches(jobs, 1)
	lost := c.others(c.master())[0]
	lost.end() // the end records how far its files are
	lost.start()
	c.awaitUp(lost)
	c.awaitBehind(lost, 0)
	c.awaitEqual()
	lost.end()
	lost.removeFile("queue")
	said := lost.refusesToStart()
	require.Contains(t, said, "the queue of this node, "+lost.name+", is lost: queue/member is missing")
	require.NoFileExists(t, lost.path("lib", paths.SerialPath), "nothing is made in its place")

	// The disk is mounted again.
	require.NoError(t, os.RemoveAll(lost.path("lib", "queue")))
	require.NoError(t, os.Rename(lost.path("lost.queue"), lost.path("lib", "queue")))
	lost.start()
	c.awaitUp(lost)
	c.awaitEqual()

	// The disk is lost, and an old queue of another node is in its place.
	other := c.others(lost)[0]
	lost.end()
	lost.removeFile("queue")
	require.NoError(t, os.CopyFS(lost.path("lib", "queue"), os.DirFS(other.path("lib", "queue"))))
	require.NoError(t, os.RemoveAll(lost.path("lib", "queue", "lock")))
	said = lost.refusesToStart()
	require.Contains(t, said, "queue/member is not the one")
	lost.rejoin(said)
	c.awaitVotes(3)
	c.awaitUp(lost)
	c.awaitEqual()
	c.promote(lost)
	lost.awaitJobs(jobs)
	u.must("DeleteFilter", nil, filter)
	for id := range int64(jobs) {
		u.awaitStatus(id+1, "success")
	}
	require.EqualValues(t, jobs+1, u.submit(command("true")), "no id is given out twice")
	c.awaitEqual()
}

// copyQueue copies the queue of a node whose daemon is stopped.
func (m *member) copyQueue(to string) {
	m.t.Helper()
	require.NoError(m.t, os.CopyFS(to, os.DirFS(m.path("lib", "queue"))))
	require.NoError(m.t, os.RemoveAll(filepath.Join(to, "lock")))
}

// replaceQueue puts a copy of the queue in the place of the queue, as when a snapshot of its disk is restored.
func (m *member) replaceQueue(by string) {
	m.t.Helper()
	require.NoError(m.t, os.RemoveAll(m.path("lib", "queue")))
	require.NoError(m.t, os.CopyFS(m.path("lib", "queue"), os.DirFS(by)))
}

// A node whose queue was replaced by an older copy of it does not start: as the master it would lack the jobs whose entries its log
// has replaced by a snapshot, and give out their ids again. A copy that its log can complete is admitted.
func TestClusterNodeWithAnOlderQueue(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	filter := u.pause()
	const jobs = 4
	c.submitInBatches(jobs/2, 1)
	m := c.master()
	m.end()
	older := t.TempDir()
	m.copyQueue(older)
	m.start()
	c.awaitUp(m)
	c.submitInBatches(jobs/2, 1)
	c.awaitEqual()

	m.kill() // the log has all entries since the copy
	m.replaceQueue(older)
	m.start()
	c.awaitUp(m)
	c.awaitEqual()

	c.promote(m)
	back := c.others(m)[0]
	c.wipe(back)
	back.start() // the master takes a snapshot for it
	c.awaitVotes(3)
	m.end()
	m.replaceQueue(older)
	said := m.refusesToStart()
	require.Contains(t, said, "the queue of this node, "+m.name+", is an older copy: queue/member is of entry ")
	m.rejoin(said)
	c.awaitVotes(3)
	c.awaitUp(m)
	c.awaitEqual()
	c.promote(m)
	m.awaitJobs(jobs)
	u.must("DeleteFilter", nil, filter)
	for id := range int64(jobs) {
		u.awaitStatus(id+1, "success")
	}
	require.EqualValues(t, jobs+1, u.submit(command("true")), "no id is given out twice")
	c.awaitEqual()
}

// The first node of a cluster does not make a second cluster when it has lost its log: it
// joins the cluster that it made as a new node. The test fails if datadir.IsFounder looks at Founder
// alone.
func TestClusterFounderWithoutItsLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	u.awaitStatus(u.submit(command("true")), "success")
	founder := c.nodes[0]
	founder.end()
	require.NoError(t, os.RemoveAll(founder.path("lib", "raft", "wal")))
	require.NoError(t, os.RemoveAll(founder.path("lib", "raft", "snapshots")))
	founder.start()
	c.awaitVotes(3)
	c.eventually("the first node does not know the others", func() error { // until it has the snapshot of another node it knows itself
		nodes, err := founder.list()
		if err == nil && len(nodes.Nodes) != 3 {
			err = fmt.Errorf("it lists %+v", nodes.Nodes)
		}
		return err
	})
	u.awaitStatus(u.submit(command("true")), "success")
	c.awaitEqual()
}

// A member of an older version has no file queue/member. Its daemon writes the file if the
// node has a queue.
func TestClusterMemberOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	m := c.nodes[0]
	u := c.user(0)
	u.awaitStatus(u.submit(command("true")), "success")
	m.end()
	require.NoError(t, os.Remove(m.path("lib", paths.MemberPath)))
	require.NoError(t, os.Remove(m.path("lib", paths.LogQueuePath)))
	m.start()
	c.awaitVotes(1)
	require.FileExists(t, m.path("lib", paths.MemberPath))
	m.end()
	require.NoError(t, os.Remove(m.path("lib", paths.LogQueuePath)))
	m.removeFile("queue")
	require.Contains(t, m.refusesToStart(), "queue/serial is missing, though this node has a log")
}

// A standalone node that has lost its queue does not start with an empty queue unless the
// operator permits it. The test fails if checkQueue returns nil.
func TestANodeWithoutItsQueue(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	require.Zero(t, d.stop())
	d.removeFile("queue")
	said := d.refusesSecond()
	require.Contains(t, said, "queue/version is missing, though config.data is there")
	require.Contains(t, said, "echo 1 > "+d.path("lib", "queue", "version"))
	require.NoFileExists(t, d.path("lib", paths.SerialPath))
	require.NoError(t, os.RemoveAll(d.path("lib", "queue")))
	require.NoError(t, os.Rename(d.path("lost.queue"), d.path("lib", "queue")))
	d.start()
	c = d.dial()
	second := c.submit(command("true"))
	require.EqualValues(t, 2, second)
	require.Equal(t, "success", c.await(second).Status) // else its process may write its file into the removed queue
	require.Zero(t, d.stop())
	d.removeFile("queue")
	d.refusesSecond()
	require.NoError(t, os.WriteFile(d.path("lib", "queue", "version"), []byte("1\n"), 0o640))
	d.start()
	require.EqualValues(t, 1, d.dial().submit(command("true")))
}
