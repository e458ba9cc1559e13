package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/edge/cgroup"
	"lockstep/edge/cgroup/cgrouptest"
	"lockstep/persistence"
)

// startGuard starts the guard of a node, and returns when it runs. It ends with the test.
func (d *daemon) startGuard(group string) {
	d.t.Helper()
	guard := exec.Command(filepath.Join(programs, "lockstep-guard"), "--run-dir", d.path("run"), "--job-cgroup", group)
	stderr, err := guard.StderrPipe()
	require.NoError(d.t, err)
	require.NoError(d.t, guard.Start())
	d.t.Cleanup(func() {
		_ = guard.Process.Kill()
		_ = guard.Wait()
	})
	lines := bufio.NewScanner(stderr)
	require.True(d.t, lines.Scan(), "the guard has ended")
	require.Contains(d.t, lines.Text(), "lockstep-guard started")
	go func() {
		for lines.Scan() {
			d.mu.Lock()
			d.log.WriteString(lines.Text() + "\n")
			d.mu.Unlock()
		}
	}()
	require.True(d.t, persistence.IsGuarded(d.path("run")))
}

// awaitPopulated waits until so many groups of commands have processes.
func (d *daemon) awaitPopulated(group string, count int) {
	d.t.Helper()
	eventuallyWithin(d.t, patience, "what a dead job has left lives", func() error {
		if left := cgroup.Populated(group); len(left) != count {
			return fmt.Errorf("in %s", strings.Join(left, ", "))
		}
		return nil
	})
}

// The guard alone ends what a job process has left that was killed together with the daemon. It leaves what lives on after a normal end. The
// next daemon finds the job dead.
func TestTheGuardEndsWhatAKilledJobHasLeft(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	group := d.startInGroup()
	d.startGuard(group)
	c := d.dial()
	var status answer.QueueStatus
	c.call("LockstepStatus", &status)
	require.True(t, status.Guarded)
	c.await(c.submit(d.hiding(fmt.Sprintf(`while [ ! -e %s ]; do sleep 0.01; done`, d.path("pid")))))
	normal := d.workerPID()
	require.NoError(t, os.Remove(d.path("pid")))

	id := c.submit(d.hiding("exec sleep 999"))
	d.awaitStep(d.path("pid"))
	c.awaitStatus(id, "running")
	running := d.processOf(id)
	d.kill()
	require.Len(t, cgroup.Populated(group), 2)
	require.NoError(t, syscall.Kill(running, syscall.SIGKILL))
	d.awaitPopulated(group, 1)
	require.True(t, isGone(d.workerPID()))
	require.False(t, isGone(normal))
	d.start("--job-cgroup", group)
	require.Equal(t, "error", d.dial().await(id).Status)
	require.False(t, isGone(normal))
}

// While a job process lives and no lease is over, the guard does nothing, whatever happens to the daemon.
func TestTheGuardLeavesRunningJobs(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	group := d.startInGroup()
	d.startGuard(group)
	c := d.dial()
	running := c.submit(d.hiding("exec sleep 999"))
	d.awaitStep(d.path("pid"))
	c.awaitStatus(running, "running")
	killed := c.submit(command("sleep", "999"))
	c.awaitStatus(killed, "running")
	d.kill()
	require.NoError(t, syscall.Kill(d.processOf(killed), syscall.SIGKILL))
	d.awaitPopulated(group, 1)
	require.False(t, isGone(d.workerPID()), "the guard has looked at all groups")
	d.start("--job-cgroup", group)
	c = d.dial()
	c.awaitStatus(running, "running")
	c.ask("CancelJob", running, true)
	require.Equal(t, "error", c.await(running).Status)
}

// A job process that is suspended does not notice the end of the lease, and a daemon that stands still ends nothing. The guard of the former
// master ends the command, and what a killed job process has left.
func TestClusterTheGuardEndsCommandsAfterTheLease(t *testing.T) {
	t.Parallel()
	root := cgrouptest.New(t)
	group := filepath.Join(root, "jobs")
	c := newCluster(t, 3, "--job-cgroup", group)
	u := c.user(0)
	master := c.master()
	master.startGuard(group)
	lock := [][2]string{{"node/x", "exclusive"}}
	suspended := u.submit(c.workerOp("suspended").with("locks", lock))
	killed := u.submit(c.workerOp("killed"))
	pids := []int{c.awaitWorker("suspended"), c.awaitWorker("killed")}
	next := u.submit(c.workerOp("next").with("locks", lock))
	u.close()
	process := master.processOf(suspended)
	suspend := suspension(t, root, process)
	require.NoError(t, suspend(true))
	master.signal(syscall.SIGSTOP)
	master.up = false
	require.NoError(t, syscall.Kill(master.processOf(killed), syscall.SIGKILL))
	for _, pid := range pids {
		c.awaitDeath(pid)
	}
	require.True(t, isProcessAlive(process))
	require.NoError(t, suspend(false))
	c.awaitDeath(process)
	master.crash()
	u = c.user(indexOf(c, c.master()))
	u.awaitStatus(suspended, "error")
	u.awaitStatus(killed, "error")
	c.awaitWorker("next")
	c.open()
	u.awaitStatus(next, "success")
	c.startAll()
	c.awaitEqual()
}

// suspension returns what suspends and continues a process, which no SIGCONT does: the next master sends one here, because it is on the same
// machine.
func suspension(t *testing.T, root string, pid int) (suspend func(bool) error) {
	group := filepath.Join(root, "suspended")
	require.NoError(t, os.Mkdir(group, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
	return func(on bool) error {
		text := map[bool]string{true: "1", false: "0"}[on]
		return os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte(text), 0)
	}
}
