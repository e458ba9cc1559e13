package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/persistence"
)

// awaitProgress returns the job as it is listed when its command has said text.
func (c *client) awaitProgress(id int64, text string) (listed answer.ListedJob) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		list := c.list(answer.JobSelection{IDs: []int64{id}})
		require.Len(c.t, list, 1)
		listed = list[0]
		return listed.Progress != nil && listed.Progress.Text == text
	}, patience, 5*time.Millisecond)
	return listed
}

// A command says its progress by the program and by a line of its own, also at a daemon that has started since. Its job's file is not
// written for that. When the process of the job is killed, its pipe is removed.
func TestTheProgressOfACommand(t *testing.T) {
	t.Parallel()
	program, err := lockstepProgram()
	require.NoError(t, err)
	d := newDaemon(t)
	d.start()
	c := d.dial()
	gate := d.path("gate")
	id := c.submit(command("sh", "-c", program+` progress 40 'copying disk 2' || exit 9
		while ! [ -e `+gate+` ]; do sleep 0.02; done
		echo "60% copying disk 3" > "$LOCKSTEP_PROGRESS"; sleep 300`))
	listed := c.awaitProgress(id, "copying disk 2")
	require.Equal(t, 40.0, *listed.Progress.Percent)
	require.False(t, listed.Progress.End.Before(listed.Progress.Updated.Time))
	var why answer.Why
	c.call("LockstepWhy", &why, id)
	require.Equal(t, listed.Progress, why.Progress)
	pipe := persistence.ProgressPath(d.path("run"), id)
	require.FileExists(t, pipe)

	file := d.path("lib", "queue", "job-"+itoa(id))
	before, err := os.Stat(file)
	require.NoError(t, err)
	d.kill()
	d.start()
	c = d.dial()
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	c.awaitProgress(id, "copying disk 3")
	after, err := os.Stat(file)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "the file was replaced")

	require.NoError(t, syscall.Kill(d.processOf(id), syscall.SIGKILL))
	require.Equal(t, "error", c.await(id).Status)
	require.Nil(t, c.list(answer.JobSelection{IDs: []int64{id}})[0].Progress)
	require.NoFileExists(t, pipe)
}

// Progress is that of the running opcode: the next one has none before its command says something.
func TestTheProgressOfOneOpcode(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	gate := d.path("gate")
	wait := func(n string) string { return "while ! [ -e " + gate + n + " ]; do sleep 0.02; done" }
	id := c.submit(
		command("sh", "-c", `echo '90 first' > "$LOCKSTEP_PROGRESS"; `+wait("1")),
		command("sh", "-c", wait("2")+`; printf '7\033[2J second \377\n' > "$LOCKSTEP_PROGRESS"; `+wait("3")))
	c.awaitProgress(id, "first")
	require.NoError(t, os.WriteFile(gate+"1", nil, 0o600))
	require.Eventually(t, func() bool { return c.list(answer.JobSelection{IDs: []int64{id}})[0].Progress == nil }, patience, 5*time.Millisecond)
	require.NoError(t, os.WriteFile(gate+"2", nil, 0o600))
	require.Nil(t, c.awaitProgress(id, "7 [2J second \ufffd").Progress.Percent, "the first word is no number")
	require.NoError(t, os.WriteFile(gate+"3", nil, 0o600))
	require.Equal(t, "success", c.await(id).Status)
	require.Nil(t, c.list(answer.JobSelection{IDs: []int64{id}})[0].Progress)
}
