package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// refusesSecond starts another daemon with these flags beside this daemon, requires that the
// other daemon ends by itself, and returns its error text.
func (d *daemon) refusesSecond(flags ...string) string {
	d.t.Helper()
	second := &daemon{t: d.t, root: d.root}
	ready := second.launch(flags...)
	defer second.kill()
	select {
	case <-second.done:
		require.NotZero(d.t, second.cmd.ProcessState.ExitCode())
	case <-ready:
		d.t.Fatalf("a second daemon has started with %q:\n%s", flags, second.logged())
	case <-time.After(patience):
		d.t.Fatalf("a second daemon with %q does not end:\n%s", flags, second.logged())
	}
	return second.logged()
}

// refusesWithoutLockFile removes the lock file of the queue and requires that another daemon cannot
// start. This daemon is frozen meanwhile: it looks at the file every lockCheckInterval, and would
// end and free the queue if it looked before the other daemon has started.
func (d *daemon) refusesWithoutLockFile() {
	d.t.Helper()
	pid := d.cmd.Process.Pid
	require.NoError(d.t, unix.Kill(pid, unix.SIGSTOP))
	defer func() { require.NoError(d.t, unix.Kill(pid, unix.SIGCONT)) }()
	require.NoError(d.t, unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil))
	require.NoError(d.t, os.Remove(d.path("lib", "queue", "lock")))
	require.Contains(d.t, d.refusesSecond("--run-dir", d.path("run2")), "another daemon runs on this queue")
}

// requireServing requires that clients and job processes reach the daemon and that its sockets
// exist.
func (d *daemon) requireServing() {
	d.t.Helper()
	c := d.dial()
	require.Equal(d.t, "success", c.await(c.submit(command("true"))).Status)
	require.NoError(d.t, c.Close())
}

// A second daemon that is started with a run directory in use takes neither the sockets nor
// the lease, whatever its data directory is.
func TestASecondDaemonOnTheRunDirectory(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	require.NoError(t, os.WriteFile(d.path("run", "lease"), nil, 0o600)) // like the file of a node of a cluster
	said := d.refusesSecond("--data-dir", d.path("other"))
	require.Contains(t, said, "directory "+d.path("run")+" is in use by process")
	require.FileExists(t, d.path("run", "lease"))
	require.FileExists(t, d.path("run", "socket", "ganeti-query"))
	d.requireServing()
	require.Contains(t, d.refusesSecond("--run-dir", d.path("run2")), "another daemon runs on this queue")
	require.Contains(t, d.refusesSecond(), "another daemon runs on this queue")
	d.requireServing()
	require.Zero(t, d.stop())
	other := &daemon{t: t, root: d.root}
	other.start("--data-dir", d.path("other"))
	require.Zero(t, other.stop(), "it is free again")
}

// After queue/lock was removed no second daemon can start. The first daemon stops in order;
// running jobs continue, and the next daemon adopts them.
func TestARemovedQueueLock(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(command("sh", "-c", "echo ran >> "+d.path("ran")+"; while [ ! -e "+d.path("open")+" ]; do sleep 0.02; done"))
	d.awaitStep(d.path("ran"))
	first := d.done
	d.refusesWithoutLockFile()
	select {
	case <-first:
	case <-time.After(patience):
		t.Fatal("the daemon goes on without its lock file")
	}
	require.Equal(t, 1, d.cmd.ProcessState.ExitCode())
	require.Contains(t, d.logged(), "queue/lock was removed or replaced")
	d.start()
	require.NoError(t, os.WriteFile(d.path("open"), nil, 0o600))
	require.Equal(t, "success", d.dial().await(id).Status)
	require.Equal(t, 1, d.runCount())
}
