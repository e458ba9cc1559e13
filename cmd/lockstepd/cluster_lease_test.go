package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/luxiclient"
)

// workerOp is a command that writes its name, ignores SIGTERM, and runs until the test creates
// the file "open".
func (c *cluster) workerOp(name string) op {
	return command("sh", "-c", fmt.Sprintf(`trap "" TERM
echo $$ >> %[1]s/pid-%[2]s; tr "\0" " " < /proc/$PPID/cmdline >> %[1]s/by-%[2]s
while [ ! -e %[1]s/open ]; do sleep 0.02; done; echo ended >> %[1]s/ended-%[2]s`, c.shared, name))
}

func (c *cluster) read(file string) string {
	content, _ := os.ReadFile(filepath.Join(c.shared, file))
	return string(content)
}

// open lets workers end.
func (c *cluster) open() {
	require.NoError(c.t, os.WriteFile(filepath.Join(c.shared, "open"), nil, 0o600))
}

// awaitWorker waits until the worker runs, and returns its pid.
func (c *cluster) awaitWorker(name string) (pid int) {
	c.t.Helper()
	c.eventually("worker "+name+" does not begin", func() error {
		_, err := fmt.Sscan(c.read("pid-"+name), &pid)
		return err
	})
	return pid
}

// awaitDeath waits for the end of a process, and returns how long it waited.
func (c *cluster) awaitDeath(pid int) time.Duration {
	c.t.Helper()
	began := time.Now()
	eventuallyWithin(c.t, 5*time.Second, "a job goes on that must have ended", func() error {
		if isProcessAlive(pid) {
			return fmt.Errorf("process %d lives", pid)
		}
		return nil
	})
	return time.Since(began)
}

// isProcessAlive reports whether a process runs. A zombie does not.
func isProcessAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// A master that is stopped for longer than its lease and continues has lost its mastership and
// its jobs, and does nothing that only a master may do.
func TestClusterFrozenMaster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	u := c.user(0)
	lock := [][2]string{{"node/x", "exclusive"}}
	running := u.submit(c.workerOp("running").with("locks", lock))
	pid := c.awaitWorker("running")
	waiting := u.submit(c.workerOp("waiting").with("locks", lock))
	queued := u.submit(c.workerOp("queued").with("depends", [][]any{{running, []string{"success", "error"}}}))
	u.close()

	// The late submission waits in the socket of the stopped master, which reads it after SIGCONT.
	late := make(chan error, 1)
	var lateID int64
	client, err := luxiclient.Dial(context.Background(), master.socket(), luxiclient.Options{AnswerTimeout: patience})
	require.NoError(t, err)
	defer client.Close()
	master.signal(syscall.SIGSTOP)
	froze := time.Now()
	master.up = false
	go func() {
		late <- client.Call(context.Background(), "SubmitJob", []any{[]op{c.workerOp("late")}}, &lateID)
	}()
	t.Logf("the command of the running job was gone %s after the freeze", c.awaitDeath(pid))
	next := c.master()
	require.NotEqual(t, master.name, next.name)
	t.Logf("node %s was master %s after the freeze", next.name, time.Since(froze))
	u = c.user(indexOf(c, next))
	u.awaitStatus(running, "error")
	master.signal(syscall.SIGCONT)
	thawed := time.Now()
	master.up = true
	err = <-late
	t.Logf("the submission to the frozen master was answered %s after it went on: job %d, %v", time.Since(thawed), lateID, err)
	c.awaitUp(master)
	require.False(t, master.ended())
	eventuallyWithin(t, 5*time.Second, "the former master does not know that it is one", func() error {
		if err := master.direct("QueryConfigValues", nil, []string{"drain_flag"}); !isNotMaster(err) {
			return fmt.Errorf("it answers %w", err)
		}
		return nil
	})
	c.open()
	u.awaitStatus(queued, "success")
	u.awaitStatus(waiting, "success", "error")
	if err == nil {
		u.awaitStatus(lateID, "success")
	}
	require.NotContains(t, c.read("ended-running"), "ended")
	for _, name := range []string{"waiting", "queued", "late"} {
		require.LessOrEqual(t, strings.Count(c.read("pid-"+name), "\n"), 1, "%s has run twice", name)
		require.NotContains(t, c.read("by-"+name), master.root+"/", "%s was started by the frozen one", name)
	}
	c.awaitEqual()
}

// A node that does not answer is not promoted, and running jobs continue.
func TestClusterPromoteOfDeadNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	running := u.submit(c.workerOp("running"))
	pid := c.awaitWorker("running")
	master := c.master()
	dead := c.others(master)[0]
	dead.crash()
	u.awaitStatus(u.submit(command("sleep", "3")), "success") // it has been silent for longer than two elections
	_, stderr, code := master.tryCLI("node", "promote", dead.name)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "does not answer; nothing has changed")
	require.Equal(t, master.name, c.master().name)
	require.True(t, isProcessAlive(pid))
	c.open()
	u.awaitStatus(running, "success")
	c.startAll()
	c.awaitEqual()
}

func indexOf(c *cluster, m *member) int {
	for i := range c.nodes {
		if c.nodes[i] == m {
			return i
		}
	}
	return -1
}

// Without a majority no job is accepted and no job runs. With the flag --leave-jobs running
// jobs continue. When the majority is back, the cluster serves all requests again.
func TestClusterWithoutMajority(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	last, id := c.loseMajority(u, "ended")
	require.Less(t, c.awaitDeath(c.awaitWorker("ended")), patience)
	c.refuses(last)
	c.restoreMajority(u)
	u.awaitStatus(id, "error")
	u.awaitStatus(u.submit(command("true")), "success")
	c.startAll()
	c.awaitEqual()

	for _, m := range c.nodes {
		m.flags = []string{"--leave-jobs"}
		m.end()
		m.start()
		c.awaitUp(m)
	}
	last, id = c.loseMajority(u, "left")
	c.refuses(last)
	require.True(t, isProcessAlive(c.awaitWorker("left")))
	c.open()
	c.eventually("the job does not end", func() error {
		if c.read("ended-left") == "" {
			return errors.New("not yet")
		}
		return nil
	})
	c.restoreMajority(u)
	u.awaitStatus(id, "success", "error")
	t.Logf("the job that was left alone is %s", u.status(id))
	c.startAll()
	c.awaitEqual()
}

// loseMajority kills all nodes but the master, on which a job runs.
func (c *cluster) loseMajority(u *user, name string) (last *member, id int64) {
	id = u.submit(c.workerOp(name))
	c.awaitWorker(name)
	last = c.master()
	for _, m := range c.others(last) {
		m.crash()
	}
	return last, id
}

// refuses requires that a submission fails within a moment, with the reason.
func (c *cluster) refuses(m *member) {
	c.t.Helper()
	lost := time.Now()
	eventuallyWithin(c.t, 5*time.Second, "a master without a majority takes requests", func() error {
		began := time.Now()
		err := m.direct("SubmitJob", nil, withNames([][]op{{c.workerOp("refused")}})[0])
		if !isNotMaster(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		require.ErrorContains(c.t, err, "a majority of the nodes that vote must reach each other")
		require.Less(c.t, time.Since(began), time.Second)
		return nil
	})
	c.t.Logf("refused with a clear error %s after the loss", time.Since(lost))
	file := filepath.Join(c.shared, "refused.json")
	require.NoError(c.t, os.WriteFile(file, []byte(`[{"OP_ID": "OP_TEST_DELAY", "duration": 0.01}]`), 0o600))
	_, stderr, code := m.tryCLI("submit", file)
	require.Equal(c.t, 1, code)
	require.Contains(c.t, stderr, "nothing was submitted")
	require.Contains(c.t, m.cli("node", "list"), "There is no majority: 1 of 3")
	for _, args := range [][]string{{"status"}, {"why", "1"}, {"list"}} {
		_, stderr, code = m.tryCLI(args...)
		require.Equal(c.t, 1, code, "%v", args)
		require.Contains(c.t, stderr, "a majority of the nodes that vote must reach each other", "%v", args)
	}
	require.Contains(c.t, m.logged(), "failed to contact quorum of nodes, stepping down")
}

func (c *cluster) startAll() {
	for _, m := range c.nodes {
		if !m.up {
			m.start()
			c.awaitUp(m)
		}
	}
}

// restoreMajority starts one of the killed nodes, and requires full service.
func (c *cluster) restoreMajority(u *user) {
	c.t.Helper()
	for _, m := range c.nodes {
		if !m.up {
			m.start()
			break
		}
	}
	began := time.Now()
	c.master()
	u.submit(command("true"))
	c.t.Logf("a submission was taken %s after a majority was back", time.Since(began))
	require.Less(c.t, time.Since(began), patience)
}

// After the lease file is removed, no job of the old master runs beside the next master,
// neither a job that ran at the removal nor a job that starts later.
func TestClusterLeaseFileIsRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	master := c.master()
	u.submit(c.workerOp("before"))
	before := c.awaitWorker("before")
	lease := master.path("run", "lease")
	require.NoError(t, os.Remove(lease))
	eventuallyWithin(t, patience, "the lease is not made again", func() error {
		_, err := os.Stat(lease)
		return err
	})
	require.True(t, isProcessAlive(before))
	u.submit(c.workerOp("after"))
	after := c.awaitWorker("after")
	master.crash()
	c.awaitDeath(before)
	c.awaitDeath(after)
	c.startAll()
	c.awaitEqual()
}
