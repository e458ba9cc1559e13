package main

import (
	"encoding/json"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
)

// takesLocks makes Ganeti's processes take the big lock for each opcode, in attempts that last so many seconds, and start
// although it is not free.
func (g *ganetiQueue) takesLocks(attempt string) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(g.path("lib", "attempt"), []byte(attempt), 0o600))
	g.dial().call("LockstepSetSettings", nil, map[string]any{"order": "plain"})
}

// blockBigLock submits a job that holds the big lock exclusively until end is called. It is the first job.
func (g *ganetiQueue) blockBigLock(c *client) (id int64, end func()) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(g.path("lib", "exclusive-1"), nil, 0o600))
	id = c.submit(delayOp())
	c.awaitOpStatus(id, 0, "running")
	return id, func() {
		g.permit(id, 0, "")
		require.Equal(g.t, "success", c.await(id).Status)
	}
}

// pendingJobs are the jobs whose requests wait for locks.
func (c *client) pendingJobs() (ids []int64) {
	c.t.Helper()
	var pending [][]json.RawMessage
	c.call("listLocksWaitingStatus", &[]any{new(any), &pending})
	for _, p := range pending {
		var owner lock.Owner
		require.NoError(c.t, json.Unmarshal(p[1], &owner))
		ids = append(ids, int64(owner.Job))
	}
	slices.Sort(ids)
	return ids
}

// awaitPending waits until the requests of just these jobs wait for locks.
func (g *ganetiQueue) awaitPending(ids ...int64) {
	g.t.Helper()
	w := g.wconfd()
	require.Eventually(g.t, func() bool { return slices.Equal(w.pendingJobs(), ids) }, patience, 5*time.Millisecond)
}

// A paused job goes on with the opcode that runs, and its process waits for the locks of the next one, over attempts and a restart
// of the daemon. It leaves its run slot to others, and its request blocks no other. When the rule is gone it goes on, and ends.
func TestPauseReachesGanetisProcess(t *testing.T) { bothWays(t, pauseReachesGanetisProcess) }

func pauseReachesGanetisProcess(t *testing.T, g *ganetiQueue) {
	g.takesLocks("0.5")
	c := g.dial()
	g.updateCluster(func(cluster map[string]any) { cluster["max_running_jobs"] = 1 })
	paused := c.submit(delayOp(), delayOp())
	c.awaitOpStatus(paused, 0, "running")
	rule := c.addPauseRule(paused)
	g.permit(paused, 0, "")
	g.awaitPending(paused)

	g.kill()
	require.NoError(t, syscall.Kill(readProcess(t, g, paused), syscall.SIGSTOP)) // as if the daemon had died in the middle of a cancel
	g.start(selfAccounts()...)
	c = g.dial()
	g.awaitPending(paused)
	require.NoError(t, os.WriteFile(g.path("lib", "exclusive-2"), nil, 0o600))
	other := c.submit(delayOp())
	c.awaitOpStatus(other, 0, "running")
	require.Equal(t, []string{"success", "waiting"}, c.query(paused).Statuses)
	require.Contains(t, c.reasonKinds(paused), "filter")
	c.call("DeleteFilter", nil, rule)
	g.permit(other, 0, "")
	g.permit(paused, 1, "")
	require.Equal(t, "success", c.await(other).Status)
	require.Equal(t, "success", c.await(paused).Status)
}

// A hold is as a pause, also for a request that waits already. The answer says that nothing begins.
func TestAHoldReachesGanetisProcess(t *testing.T) { bothWays(t, aHoldReachesGanetisProcess) }

func aHoldReachesGanetisProcess(t *testing.T, g *ganetiQueue) {
	g.takesLocks("60")
	c := g.dial()
	_, end := g.blockBigLock(c)
	held := c.submit(delayOp())
	g.awaitPending(held)
	done, text := c.ask("LockstepHoldJob", held, true)
	require.True(t, done)
	require.Equal(t, "Job 2 is held", text)
	end()
	require.Equal(t, []int64{held}, g.wconfd().pendingJobs())
	done, _ = c.ask("LockstepHoldJob", held, false)
	require.True(t, done)
	g.permit(held, 0, "")
	require.Equal(t, "success", c.await(held).Status)
}

// A cancel, and a rule that rejects it, end a job whose process waits for locks, although its attempt lasts for a minute, and
// also if it is paused. An opcode that runs goes on, and the job ends before the next one.
func TestCancelReachesGanetisProcess(t *testing.T) { bothWays(t, cancelReachesGanetisProcess) }

func cancelReachesGanetisProcess(t *testing.T, g *ganetiQueue) {
	g.takesLocks("60")
	c := g.dial()
	_, end := g.blockBigLock(c)
	plain, paused, rejected := c.submit(delayOp(), delayOp()), c.submit(delayOp()), c.submit(delayOp())
	g.awaitPending(plain, paused, rejected)
	began := time.Now()
	done, text := c.ask("CancelJob", plain, false)
	t.Logf("a cancel takes %s", time.Since(began))
	require.True(t, done)
	require.Equal(t, "Job successfully cancelled", text)
	j := c.query(plain)
	require.Equal(t, []string{"canceled", "canceled"}, j.Statuses)
	require.Equal(t, `"Job canceled by request"`, string(j.Results[0]))
	c.addPauseRule(paused)
	done, _ = c.ask("CancelJob", paused, false)
	require.True(t, done)
	require.Equal(t, "canceled", c.query(paused).Status)
	g.awaitPending(rejected)

	c.call("ReplaceFilter", nil, nil, 0, []any{[]any{"jobid", []any{">", "id", 0}}}, "REJECT", []any{})
	j = c.await(rejected)
	require.Equal(t, "canceled", j.Status)
	require.Contains(t, string(j.Results[0]), "rejected by filter rule")
	g.awaitPending()
	end()
}

// A rule that rejects a job between two opcodes ends it there.
func TestRejectReachesGanetisProcess(t *testing.T) { bothWays(t, rejectReachesGanetisProcess) }

func rejectReachesGanetisProcess(t *testing.T, g *ganetiQueue) {
	g.takesLocks("60")
	c := g.dial()
	id := c.submit(delayOp(), delayOp())
	c.awaitOpStatus(id, 0, "running")
	c.call("ReplaceFilter", nil, nil, 0, []any{[]any{"jobid", []any{">", "id", 0}}}, "REJECT", []any{})
	g.permit(id, 0, "")
	j := c.await(id)
	require.Equal(t, []string{"success", "canceled"}, j.Statuses)
	require.Contains(t, string(j.Results[1]), "rejected by filter rule")
}
