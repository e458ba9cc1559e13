package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/reaper"
)

// The daemon finds a command that drops its environment by its session, even if the daemon was
// down when the job died. The lock on a file shows whether the command works beside the next
// job.
func TestADeadJobLeavesNothingThatHidesItself(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"daemon up": false, "daemon killed with it": true} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			d.start()
			c := d.dial()
			worker, next := d.rivals("env -i")
			id := c.submit(worker)
			d.awaitStep(d.path("pid"))
			c.awaitStatus(id, "running")
			after := c.submit(next)
			if down {
				d.kill()
			}
			require.NoError(t, syscall.Kill(d.processOf(id), syscall.SIGKILL))
			if down {
				d.start()
				c = d.dial()
			}
			require.Equal(t, "success", c.await(after).Status)
			require.Equal(t, "error", c.await(id).Status)
			require.True(t, isGone(d.workerPID()))
		})
	}
}

// rivals are two commands with the same lock. The first, started by means of a prefix, works
// until it is killed. The second fails if the first still works.
func (d *daemon) rivals(prefix string) (worker, next op) {
	locks := [][2]string{{"node/x", "exclusive"}}
	work := fmt.Sprintf(`%[1]s flock %[2]s sh -c "echo \$\$ > %[3]s.new; mv %[3]s.new %[3]s; sleep 300" & wait`,
		prefix, d.path("work"), d.path("pid"))
	return command("bash", "-c", work).with("locks", locks),
		command("flock", "--nonblock", "--conflict-exit-code", "99", d.path("work"), "true").with("locks", locks)
}

func (d *daemon) workerPID() string {
	pid, err := os.ReadFile(d.path("pid"))
	require.NoError(d.t, err)
	return strings.TrimSpace(string(pid))
}

// Processes outside the group of a command that is forced to end have ended when the next job
// gets its locks.
func TestAForcedEndLeavesNothing(t *testing.T) {
	t.Parallel()
	// With set -m each command in the background has a process group.
	for name, prefix := range map[string]string{"in another session": "setsid", "without its environment": "set -m; env -i"} {
		t.Run(name, func(t *testing.T) {
			for cause, force := range map[string]func(*client, int64){
				"time-out": func(*client, int64) {},
				"cancel":   func(c *client, id int64) { c.ask("CancelJob", id, true) },
			} {
				t.Run(cause, func(t *testing.T) {
					d := newDaemon(t)
					d.start()
					c := d.dial()
					worker, next := d.rivals(prefix)
					if cause == "time-out" {
						worker = worker.with("timeout", 2)
					}
					id := c.submit(worker)
					d.awaitStep(d.path("pid"))
					after := c.submit(next)
					force(c, id)
					require.Equal(t, "success", c.await(after).Status)
					require.Equal(t, "error", c.await(id).Status)
					require.True(t, isGone(d.workerPID()))
				})
			}
		})
	}
}

// A daemon that a job's command has started in another session does not belong to the job, nor
// do the jobs of that daemon.
func TestADaemonThatAJobHasStartedOutlivesIt(t *testing.T) {
	livelock := filepath.Join(t.TempDir(), "job_7_1_2_3")
	t.Setenv(reaper.EnvName, reaper.EnvValue(livelock))
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	var killed []int
	left := reaper.Job{Livelock: livelock, KillTimeout: time.Second, OnKill: func(pid int) { killed = append(killed, pid) }}
	require.NoError(t, left.Kill())
	require.Empty(t, killed)
	open()
	require.Equal(t, "success", c.await(id).Status)
}

// A job whose lock file was removed does not count as dead while its process lives.
func TestAJobThatHasLostItsLockFileIsNotGivenUp(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
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

// Jobs wait while no process can be started, and no job fails for that.
func TestAProgramThatIsMissingForAWhileFailsNoJob(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(
		command("/bin/sh", "-c", "echo $PATH").with("env", op{"PATH": "/elsewhere"}),
		command("sh", "-c", "echo $PATH"))
	require.Equal(t, []string{"/elsewhere", os.Getenv("PATH")}, c.await(id).lines())
}

// The daemon reads a job file that is too long for a report from the disk.
func TestALongLogIsSeenWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
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

// A process that has left the command's group and holds the command's input does not keep the
// job running.
func TestACommandIsOverWhenItHasEnded(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	j := c.await(c.submit(command("sh", "-c", "setsid sleep 60 & echo $!").with("stdin", strings.Repeat("x", 200_000))))
	require.Equal(t, "success", j.Status)
}
