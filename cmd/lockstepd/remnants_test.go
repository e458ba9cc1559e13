package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A command that drops its environment is known by its session.
func TestADeadJobLeavesNothingThatHidesItself(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	pidFile := d.path("pid")
	id := c.submit(command("env", "-i", "sh", "-c", "echo $$ > "+pidFile+"; exec /bin/sleep 300"))
	d.reaches(pidFile)
	c.until(id, "running")
	require.NoError(t, syscall.Kill(d.processOf(id), syscall.SIGKILL))
	require.Equal(t, "error", c.await(id).Status)
	pid, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	require.True(t, gone(strings.TrimSpace(string(pid))))
}

// A lock file that somebody has removed does not make a living job dead.
func TestAJobThatHasLostItsLockFileIsNotGivenUp(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.until(id, "running")
	require.Equal(t, 0, d.stop())
	locks, err := filepath.Glob(d.path("run", "livelocks", "job_*"))
	require.NoError(t, err)
	require.Len(t, locks, 1)
	require.NoError(t, os.Remove(locks[0]))
	d.start()
	c = d.dial()
	require.Equal(t, "running", c.query(id).Status)
	open()
	require.Equal(t, "success", c.await(id).Status)
}

// Jobs wait while no process can be started; none is failed for it.
func TestAProgramThatIsMissingForAWhileFailsNoJob(t *testing.T) {
	d := newDaemon(t)
	program := d.path("lockstep-job")
	real := filepath.Join(programs, "lockstep-job")
	require.NoError(t, os.Symlink(real, program))
	d.start("--job-program", program)
	c := d.dial()
	require.NoError(t, os.Remove(program))
	var ids []int64
	for range 50 {
		ids = append(ids, c.submit(command("true")))
	}
	require.Eventually(t, func() bool { return strings.Contains(d.logged(), "cannot be started") }, patience, 5*time.Millisecond)
	require.NoError(t, os.Symlink(real, program))
	for _, id := range ids {
		require.Equal(t, "success", c.await(id).Status)
	}
}

func TestTheEnvironmentOfOneOpcodeIsItsOwn(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(
		command("/bin/sh", "-c", "echo $PATH").with("env", op{"PATH": "/elsewhere"}),
		command("sh", "-c", "echo $PATH"))
	require.Equal(t, []string{"/elsewhere", os.Getenv("PATH")}, c.await(id).lines())
}

// A file that is too long for a report is looked at on the disk.
func TestALongLogIsSeenWhileTheCommandRuns(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	long := command("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do head -c 60000 /dev/zero | tr '\\0' x; echo; done")
	id := c.submit(long, work)
	require.Eventually(t, func() bool { return c.query(id).Statuses[1] == "running" }, patience, 10*time.Millisecond)
	require.Greater(t, len(c.query(id).Log[0]), 10)
	open()
	require.Equal(t, "success", c.await(id).Status)
}

// What has left the command's group and holds its input does not hold the job.
func TestACommandIsOverWhenItHasEnded(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	j := c.await(c.submit(command("sh", "-c", "setsid sleep 60 & echo $!").with("stdin", strings.Repeat("x", 200_000))))
	require.Equal(t, "success", j.Status)
}
