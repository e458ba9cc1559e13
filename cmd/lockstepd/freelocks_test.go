package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/paths"
)

// Commands with the same free lock run one after another: across two submissions, and across a daemon that is killed while
// one command has the lock and the other waits. The files that Ganeti reads do not name the lock.
func TestCommandsWithAFreeLockRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"expected", "plain"} {
		t.Run(order, func(t *testing.T) { runOneAfterAnother(t, order) })
	}
}

func runOneAfterAnother(t *testing.T, order string) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"order": order})
	lock := [][2]string{{"lock/deploy", "exclusive"}}
	traced, other := d.path("trace"), d.path("other")
	holds, open := d.gate("hold")
	gate := holds["argv"].([]string)[2]
	first := c.submit(command("sh", "-c", gate+"; echo first ends >>"+traced).with("locks", lock))
	c.awaitStatus(first, "running")
	second := c.submit(command("sh", "-c", "echo second begins >>"+traced).with("locks", lock))
	third := c.submit(command("touch", other).with("locks", [][2]string{{"lock/other", "exclusive"}, {"node/a", "shared"}}))
	require.Equal(t, "success", c.await(third).Status, "another free lock does not wait")
	require.FileExists(t, other)
	c.awaitBlocked(second, first, "lock/deploy")
	require.NoFileExists(t, traced)

	d.kill()
	d.start()
	c = d.dial()
	c.awaitBlocked(second, first, "lock/deploy")
	require.NoFileExists(t, traced, "the second command waits for the command of the former daemon")
	for _, path := range []string{paths.LocksPath, paths.LocksJournalPath} {
		content, err := os.ReadFile(d.path("lib", path))
		require.NoError(t, err)
		require.NotContains(t, string(content), "deploy", path)
	}
	open()
	require.Equal(t, "success", c.await(first).Status)
	require.Equal(t, "success", c.await(second).Status)
	content, err := os.ReadFile(traced)
	require.NoError(t, err)
	require.Equal(t, "first ends\nsecond begins\n", string(content))
}

// awaitBlocked waits until a job is known to wait for a lock of another: its process does, or it is not started because
// of it.
func (c *client) awaitBlocked(waiter, holder int64, lock string) {
	require.Eventually(c.t, func() bool {
		var why answer.Why
		c.call("LockstepWhy", &why, waiter)
		for _, r := range why.Reasons {
			switch {
			case r.Kind == answer.WhyLock && len(r.Blockers) == 1:
				return r.Blockers[0].Job == holder && slices.Equal(r.Blockers[0].Locks, []string{lock})
			case r.Kind == answer.WhyOrder && len(r.BlockedBy) == 1:
				return r.BlockedBy[0].Job == holder && slices.Equal(r.BlockedBy[0].Locks, []string{lock}) && r.BlockedBy[0].Holds
			}
		}
		return false
	}, patience, 5*time.Millisecond)
}

// A command that needs one of two locks begins when one is free, also if the daemon has been killed while it waited.
func TestACommandThatNeedsOneOfTwoLocks(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"order": "plain"})
	exclusive := func(names ...string) (locks [][2]string) {
		for _, name := range names {
			locks = append(locks, [2]string{name, "exclusive"})
		}
		return locks
	}
	holdsA, openA := d.gate("a")
	holdsB, openB := d.gate("b")
	a, b := c.submit(holdsA.with("locks", exclusive("lock/a"))), c.submit(holdsB.with("locks", exclusive("lock/b")))
	c.awaitStatus(a, "running")
	c.awaitStatus(b, "running")
	chooses := c.submit(command("sh", "-c", "echo $LOCKSTEP_LOCKS").with("opportunistic_locks", exclusive("lock/a", "lock/b")))
	awaitChoice := func() {
		require.Eventually(t, func() bool {
			var why answer.Why
			c.call("LockstepWhy", &why, chooses)
			return len(why.Reasons) == 1 && why.Reasons[0].Kind == answer.WhyLock && len(why.Reasons[0].Blockers) == 2
		}, patience, 5*time.Millisecond)
	}
	awaitChoice()
	d.kill()
	d.start()
	c = d.dial()
	awaitChoice()
	openB()
	end := c.await(chooses)
	require.Equal(t, "success", end.Status)
	require.Contains(t, end.lines()[0], "lock/b")
	require.NotContains(t, end.lines()[0], "lock/a")
	require.Equal(t, "running", c.query(a).Status)
	openA()
	require.Equal(t, "success", c.await(a).Status)
}
