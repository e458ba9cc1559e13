package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// whyNotStarted waits until the daemon reports that no job process can be started, and
// returns the reason.
func (c *client) whyNotStarted(id int64) (text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		var why struct {
			Reasons []struct{ Kind, Text string }
		}
		c.call("LockstepWhy", &why, id)
		if why.Reasons[0].Kind == "cannot-start" {
			text = why.Reasons[0].Text
		}
		return text != ""
	}, patience, 5*time.Millisecond)
	return text
}

// submitAll submits n jobs whose command does nothing.
func (c *client) submitAll(n int) []int64 {
	return c.submitMany(slices.Repeat([][]op{{command("true")}}, n))
}

// The run directory is emptied while the daemon runs. The daemon makes the directories that
// job processes need again.
func TestTheDirectoriesOfJobProcessesAreMadeAgain(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	require.NoError(t, os.RemoveAll(d.path("run", "livelocks")))
	require.NoError(t, os.RemoveAll(d.path("run", "luxidmessages")))
	for _, id := range c.submitAll(50) {
		require.Equal(t, "success", c.await(id).Status)
	}
	require.DirExists(t, d.path("run", "luxidmessages"))
}

// Processes are spawned, and end before they have named their lock files. No job fails for
// that, clients can read why no job runs, and all jobs run when processes can start. The test
// fails if jobActor.processGone gives back only jobs whose process could not be spawned.
func TestJobsWaitForProcessesThatCanStart(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	livelocks := d.path("run", "livelocks")
	require.NoError(t, os.RemoveAll(livelocks))
	require.NoError(t, os.WriteFile(livelocks, nil, 0o600)) // so that the directory cannot be made
	ids := c.submitAll(50)
	require.Contains(t, c.whyNotStarted(ids[0]), "the process did not name its lock file")
	require.Contains(t, c.whyNotStarted(ids[49]), "the process did not name its lock file")
	var status struct {
		CannotStart string `json:"cannot_start"`
		Jobs        map[string]int
	}
	c.call("LockstepStatus", &status)
	require.Contains(t, status.CannotStart, "the process did not name its lock file")
	require.Equal(t, map[string]int{"queued": 50}, status.Jobs)

	require.NoError(t, os.Remove(livelocks))
	for _, id := range ids {
		require.Equal(t, "success", c.await(id).Status)
	}
	c.call("LockstepStatus", &status)
	require.Empty(t, status.CannotStart)
}

// smallDisk puts the queue on a disk of 4 MB. A large file at the path that it returns fills the disk.
func (d *daemon) smallDisk() (ballast string) {
	d.t.Helper()
	require.NoError(d.t, os.MkdirAll(d.path("lib", "queue"), 0o750))
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", d.path("lib", "queue")).CombinedOutput()
	if err != nil {
		d.t.Logf("NOT TESTED: a full disk, which needs root and tmpfs: %v: %s", err, out)
		d.t.Skip("NOT RUN: it needs a tmpfs, which root can mount")
	}
	d.t.Cleanup(func() {
		d.kill()
		d.endJobs()
		_ = exec.Command("umount", d.path("lib", "queue")).Run()
	})
	return d.path("lib", "queue", "ballast")
}

// On a full disk, a job whose process cannot write its end, and a submission that cannot be written, are in the status, in the
// reasons of the job and, with one line each, in the log. When the disk has room, both are gone.
func TestAFullDiskIsSaid(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	ballast := d.smallDisk()
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	_ = os.WriteFile(ballast, make([]byte, 8<<20), 0o600)
	open()
	var refused int64
	require.Error(t, c.Call(context.Background(), "SubmitJob", []any{[]op{command("true")}}, &refused))
	var why answer.Why
	require.Eventually(t, func() bool {
		c.call("LockstepWhy", &why, id)
		return why.Reasons[0].Kind == answer.WhyCannotWrite
	}, patience, 20*time.Millisecond)
	require.Equal(t, answer.ByProcess, why.Reasons[0].By)
	require.Contains(t, why.Reasons[0].Text, "no space left on device")
	var status answer.QueueStatus
	c.call("LockstepStatus", &status)
	require.Len(t, status.CannotWrite, 2)
	require.Equal(t, id, status.CannotWrite[0].Job)
	require.Zero(t, status.CannotWrite[1].Job)
	require.Equal(t, d.path("lib"), status.DataDir)

	d.kill() // the process says it again to the next daemon
	d.start()
	c = d.dial()
	require.Eventually(t, func() bool {
		c.call("LockstepStatus", &status)
		return len(status.CannotWrite) > 0 && status.CannotWrite[0].Job == id
	}, patience, 20*time.Millisecond)
	said := func() int { return strings.Count(d.logged(), "job process cannot write its job file") }
	require.Eventually(t, func() bool { return said() >= 2 }, patience, 20*time.Millisecond)
	require.Equal(t, 2, said(), "one line for each daemon")

	require.NoError(t, os.Remove(ballast))
	require.Equal(t, "success", c.await(id).Status)
	c.await(c.submit(command("true")))
	c.call("LockstepStatus", &status)
	require.Empty(t, status.CannotWrite)
}

// A job whose start cannot be recorded is not started. It waits, and runs when its start can
// be recorded. The test fails if jobActor.processGone gives back only jobs whose process could
// not be spawned.
func TestJobsWaitUntilTheirStartsCanBeRecorded(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	ballast := d.smallDisk()
	d.start()
	c := d.dial()
	var pause string
	c.call("ReplaceFilter", &pause, nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	ids := c.submitAll(50)
	_ = os.WriteFile(ballast, make([]byte, 8<<20), 0o600)
	c.call("DeleteFilter", nil, pause)
	require.Contains(t, c.whyNotStarted(ids[0]), "no space left")
	require.NoError(t, os.Remove(ballast))
	for _, id := range ids {
		require.Equal(t, "success", c.await(id).Status)
	}
}
