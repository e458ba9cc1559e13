package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
	"lockstep/persistence"
)

// A daemon with another run directory would not see that a job and a program live. It does not start until they have ended.
func TestAnotherRunDirectoryWhileProcessesLive(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	program, err := persistence.CreateLivelock(persistence.LivelockDir(d.path("run")), "backup", ownership.Rules{})
	require.NoError(t, err)
	d.kill()

	said := d.refusesSecond("--run-dir", d.path("run2"))
	require.Contains(t, said, "processes live there: backup_")
	require.Contains(t, said, ", job 1. ")
	require.Contains(t, said, "Start lockstepd with --run-dir "+d.path("run"))

	d.start()
	c = d.dial()
	open()
	require.Equal(t, "success", c.await(id).Status)
	require.Zero(t, d.stop())
	require.Contains(t, d.refusesSecond("--run-dir", d.path("run2")), "processes live there: backup_")
	require.NoError(t, program.Release())
	d.start("--run-dir", d.path("run2"))
	require.Zero(t, d.stop())
	d.start() // and back
	d.requireServing()
}
