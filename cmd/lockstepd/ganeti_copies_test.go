package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/core/queuecopy"
	"lockstep/edge/noded/nodedtest"
)

// queueOf are the files of the queue that candidates get, of this daemon, by the path on other nodes.
func (g *ganetiCluster) queueOf() map[string]string {
	g.t.Helper()
	files := map[string]string{}
	root := os.DirFS(g.path("lib"))
	for _, dir := range []string{paths.QueueDir, paths.ArchiveDir + "/0"} {
		entries, _ := os.ReadDir(g.path("lib", dir)) // a directory that does not exist is empty
		for _, e := range entries {
			if _, isJob := paths.ParseJobName(e.Name()); !isJob && e.Name() != "serial" && e.Name() != "drain" {
				continue
			}
			f, err := root.Open(dir + "/" + e.Name())
			require.NoError(g.t, err)
			info, err := f.Stat()
			require.NoError(g.t, err)
			content := make([]byte, info.Size())
			_, _ = f.Read(content)
			require.NoError(g.t, f.Close())
			files["/var/lib/ganeti/"+dir+"/"+e.Name()] = string(content)
		}
	}
	return files
}

// awaitQueue waits until a candidate has the daemon's queue.
func (g *ganetiCluster) awaitQueue(node int) {
	g.t.Helper()
	want := g.queueOf()
	g.nodes[node].AwaitFiles(func(files map[string]string) bool {
		count := 0
		for file, content := range files {
			if !strings.HasPrefix(file, nodedtest.QueueDir) {
				continue
			}
			if same := want[file] == content; !same && (file != nodedtest.QueueDir+"serial" || !isAhead(content, want[file])) {
				return false
			}
			count++
		}
		return count == len(want)
	})
}

// isAhead reports whether the serial of a candidate is above the master's, but not by far.
func isAhead(candidate, master string) bool {
	there, err := paths.ParseSerial([]byte(candidate))
	here, _ := paths.ParseSerial([]byte(master))
	return err == nil && there > here && there <= here+200
}

// queueOn are the files of the queue on a node.
func (g *ganetiCluster) queueOn(node int) map[string]string {
	found := map[string]string{}
	g.nodes[node].AwaitFiles(func(files map[string]string) bool {
		for file, content := range files {
			if strings.HasPrefix(file, nodedtest.QueueDir) {
				found[file] = content
			}
		}
		return true
	})
	return found
}

// promote makes a node a master candidate, before the daemon starts.
func (g *ganetiCluster) promote(node int) {
	content, err := os.ReadFile(g.path("lib", paths.ConfigPath))
	require.NoError(g.t, err)
	first, err := model.Decode(content)
	require.NoError(g.t, err)
	e := first.Edit()
	o, found := first.Nodes.Get(fmt.Sprint("n", node))
	require.True(g.t, found)
	n := o.Value
	n.MasterCandidate = true
	model.Nodes.Put(e, n.UUID, n)
	changed, _ := e.Commit(first.MTime + 1)
	require.NoError(g.t, os.WriteFile(g.path("lib", paths.ConfigPath), changed.JSON(), 0o640))
}

// submitHeld submits jobs. A filter rule keeps them from their start.
func (g *ganetiCluster) submitHeld(c *client, count int) (ids []int64) {
	for range count {
		var id int64
		c.call("SubmitJob", &id, []any{map[string]any{"OP_ID": "OP_TEST_DELAY", "duration": 0, "on_master": true, "on_nodes": []string{}}})
		ids = append(ids, id)
	}
	return ids
}

// The candidate has the queue after each step, and what it has missed when it comes back. Other nodes get nothing of it.
func TestGanetiCopies(t *testing.T) {
	t.Parallel()
	g := newGanetiCluster(t)
	for i := range g.nodes {
		g.nodes[i].Put(nodedtest.SsconfPath("master_node"), "node0.example.com\n")
	}
	g.nodes[1].Put(nodedtest.QueueDir+"job-1", "of a former master")
	g.start(append(selfAccounts(), "--acknowledge", "local")...)
	c := g.dial()
	c.call("ReplaceFilter", nil, nil, 0, []any{[]any{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	ids := g.submitHeld(c, 5)
	g.awaitQueue(1)
	c.call("ChangeJobPriority", nil, ids[0], 5)
	g.awaitQueue(1)
	c.call("CancelJob", nil, ids[1], false)
	g.awaitQueue(1)
	c.call("ArchiveJob", nil, ids[1])
	g.awaitQueue(1)
	require.Contains(t, g.nodes[1].File("/var/lib/ganeti/"+paths.ArchivePath(ids[1])), "canceled")
	c.call("SetDrainFlag", nil, true)
	g.awaitQueue(1)
	until := time.Now().Add(time.Hour).Unix()
	c.call("SetWatcherPause", nil, until)
	g.nodes[1].AwaitFile("/var/lib/ganeti/watcher.pause", fmt.Sprint(until, "\n"))
	c.call("SetWatcherPause", nil, nil)
	g.nodes[1].AwaitFiles(func(files map[string]string) bool {
		_, paused := files["/var/lib/ganeti/watcher.pause"]
		return !paused
	})
	c.call("SetDrainFlag", nil, false)
	g.awaitQueue(1)

	for _, fault := range []nodedtest.Fault{nodedtest.Refuse, nodedtest.CloseAfter, nodedtest.Half, nodedtest.Nonsense} {
		g.nodes[1].Inject(fault)
		ids = append(ids, g.submitHeld(c, 2)...)
		g.awaitState(c, "the failure is not shown", func(s map[string]answer.DistributionNode) bool { return s["node1"].Queue.Failures > 0 })
		g.nodes[1].Inject(nodedtest.None)
		g.awaitQueue(1)
	}
	// A slow candidate holds up no answer, and gets the newest state only.
	release := g.nodes[1].Hold()
	ids = append(ids, g.submitHeld(c, 1)...)
	calls := len(g.nodes[1].Await(len(g.nodes[1].Calls()) + 1))
	for priority := range 10 {
		c.call("ChangeJobPriority", nil, ids[0], priority)
	}
	release()
	g.awaitQueue(1)
	updates := slices.DeleteFunc(g.nodes[1].Calls()[calls:], func(c nodedtest.Call) bool { return c.Procedure != "jobqueue_update" })
	require.LessOrEqual(t, len(updates), 5)

	g.nodes[1].Stop()
	gone := ids[len(ids)-1]
	c.call("CancelJob", nil, gone, false)
	c.call("ArchiveJob", nil, gone)
	late := g.submitHeld(c, 3)
	s := g.awaitState(c, "the lag is not shown", func(s map[string]answer.DistributionNode) bool { return s["node1"].Queue.Behind > 3 })
	require.NotEmpty(t, s["node1"].Queue.Error)
	require.Nil(t, s["node0"].Queue)
	require.Nil(t, s["node2"].Queue)
	g.nodes[1].Restart()
	g.awaitQueue(1)
	require.True(t, g.nodes[1].Has("/var/lib/ganeti/"+paths.JobPath(late[2])))
	require.False(t, slices.ContainsFunc(g.nodes[2].Calls(), func(c nodedtest.Call) bool { return strings.HasPrefix(string(c.Procedure), "jobqueue") }))
	require.NotEqual(t, g.queueOf()[nodedtest.QueueDir+"serial"], g.nodes[1].File(nodedtest.QueueDir+"serial"))
	require.Zero(t, g.stop())
	require.Equal(t, g.queueOf(), g.queueOn(1), "an orderly stop sends the exact serial")
}

// The daemon that starts again compares the whole queue: a candidate loses live files of archived jobs, and gets what it lacks.
func TestGanetiCopiesAfterARestart(t *testing.T) {
	t.Parallel()
	g := newGanetiCluster(t)
	g.nodes[1].Put(nodedtest.SsconfPath("master_node"), "node0.example.com\n")
	g.start(selfAccounts()...)
	c := g.dial()
	c.call("ReplaceFilter", nil, nil, 0, []any{[]any{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	ids := g.submitHeld(c, 4)
	g.awaitQueue(1)
	c.call("CancelJob", nil, ids[3], false)
	c.call("ArchiveJob", nil, ids[3])
	g.awaitQueue(1)
	g.kill()
	g.nodes[1].Put("/var/lib/ganeti/"+paths.JobPath(ids[0]), "older")
	g.nodes[1].Put("/var/lib/ganeti/"+paths.JobPath(ids[3]), "stale")
	g.start(selfAccounts()...)
	g.awaitQueue(1)
}

// With acknowledge: majority the answer to a submission waits for the candidate.
func TestGanetiAcknowledgeMajority(t *testing.T) {
	t.Parallel()
	g := newGanetiCluster(t)
	g.nodes[1].Put(nodedtest.SsconfPath("master_node"), "node0.example.com\n")
	g.start(append(selfAccounts(), "--acknowledge", "majority")...)
	c := g.dial()
	c.call("ReplaceFilter", nil, nil, 0, []any{[]any{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	for range 3 {
		id := g.submitHeld(c, 1)[0]
		require.True(t, g.nodes[1].Has("/var/lib/ganeti/"+paths.JobPath(id)))
	}
	c.call("SetDrainFlag", nil, true)
	require.True(t, g.nodes[1].Has(nodedtest.QueueDir+"drain"))
}

// By default the answer to a submission waits for each candidate. One that does not answer is waited for once, until it has caught up. After
// a kill of the daemon and the loss of its disk, a candidate has each job that a client knows.
func TestGanetiAcknowledgeAll(t *testing.T) {
	t.Parallel()
	g := newGanetiCluster(t)
	g.promote(2)
	for i := range g.nodes {
		g.nodes[i].Put(nodedtest.SsconfPath("master_node"), "node0.example.com\n")
	}
	g.start(selfAccounts()...)
	c := g.dial()
	c.call("ReplaceFilter", nil, nil, 0, []any{[]any{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	has := func(node int, id int64) bool { return g.nodes[node].Has("/var/lib/ganeti/" + paths.JobPath(id)) }
	for range 3 {
		id := g.submitHeld(c, 1)[0]
		require.True(t, has(1, id) && has(2, id))
	}
	release := g.nodes[2].Hold()
	began := time.Now()
	id := g.submitHeld(c, 1)[0]
	require.GreaterOrEqual(t, time.Since(began), queuecopy.AllMax)
	require.True(t, has(1, id))
	ids := g.submitHeld(c, 10)
	require.True(t, has(1, ids[9]))
	require.False(t, has(2, ids[9]))
	require.Equal(t, 1, strings.Count(g.logged(), "does not get changes of the queue in time"))
	release()
	g.awaitState(c, "the candidate does not catch up", func(s map[string]answer.DistributionNode) bool { return s["node2"].Queue.Behind == 0 })
	id = g.submitHeld(c, 1)[0]
	require.True(t, has(1, id) && has(2, id))
	c.call("CancelJob", nil, id, false)
	require.Contains(t, g.nodes[2].File("/var/lib/ganeti/"+paths.JobPath(id)), "canceled")
	g.kill()
	serial, err := paths.ParseSerial([]byte(g.nodes[2].File(nodedtest.QueueDir + "serial")))
	require.NoError(t, err)
	require.GreaterOrEqual(t, serial, id, "else the new master gives the id to another job")
}
