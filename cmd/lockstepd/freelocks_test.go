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
	d := newDaemon(t)
	d.start()
	c := d.dial()
	lock := [][2]string{{"lock/deploy", "exclusive"}}
	traced, other := d.path("trace"), d.path("other")
	holds, open := d.gate("hold")
	gate := holds["argv"].([]string)[2]
	first := c.submit(command("sh", "-c", gate+"; echo first ends >>"+traced).with("locks", lock))
	c.awaitStatus(first, "running")
	second := c.submit(command("sh", "-c", "echo second begins >>"+traced).with("locks", lock))
	c.submit(command("touch", other).with("locks", [][2]string{{"lock/other", "exclusive"}, {"node/a", "shared"}}))
	d.awaitWaiter(c, second, first)
	require.NoFileExists(t, traced)

	d.kill()
	d.start()
	c = d.dial()
	d.awaitWaiter(c, second, first)
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
	require.FileExists(t, other, "another free lock does not wait")
}

// awaitWaiter waits until a job waits for the free lock deploy, which another job holds.
func (d *daemon) awaitWaiter(c *client, waiter, holder int64) {
	require.Eventually(d.t, func() bool {
		var why answer.Why
		c.call("LockstepWhy", &why, waiter)
		for _, r := range why.Reasons {
			if r.Kind == answer.WhyLock && len(r.Blockers) == 1 {
				return r.Blockers[0].Job == holder && slices.Equal(r.Blockers[0].Locks, []string{"lock/deploy"})
			}
		}
		return false
	}, patience, 5*time.Millisecond)
}
