package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/paths"
)

// client runs the command line program and returns its output and exit code.
func (d *daemon) client(args ...string) (output string, code int) {
	d.t.Helper()
	cmd := d.clientCommand(args...)
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		require.NoError(d.t, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (d *daemon) clientCommand(args ...string) *exec.Cmd {
	d.t.Helper()
	return exec.Command(d.lockstep(), append([]string{"--socket", d.path("run", "socket", "ganeti-query")}, args...)...)
}

func (d *daemon) lockstep() string {
	d.t.Helper()
	path, err := lockstepProgram()
	require.NoError(d.t, err)
	return path
}

// inJob is a command that runs a command of the command line program in a job.
func (d *daemon) inJob(args string) string {
	return d.lockstep() + " --socket " + d.path("run", "socket", "ganeti-query") + " " + args
}

// awaitCycle waits until the first reason of a job is a cycle, and returns its steps.
func (c *client) awaitCycle(id int64) (r answer.Reason) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		var why answer.Why
		c.call("LockstepWhy", &why, id)
		if len(why.Reasons) == 0 || why.Reasons[0].Kind != answer.WhyCycle {
			return false
		}
		r = why.Reasons[0]
		return true
	}, patience, 5*time.Millisecond)
	return r
}

// A command that waits for a job which needs the command's lock would wait for ever. It is refused at once, before there is a job.
func TestAWaitThatWouldNeverEndIsRefused(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	inner := strings.Fields(d.inJob("run --lock a -- true"))
	for name, args := range map[string][]string{
		"run":          append([]string{"run", "--lock", "a", "--"}, inner...),
		"any of":       append([]string{"run", "--any-lock", "a", "--"}, inner...),
		"a chain":      {"run", "--lock", "a", "--", "sh", "-c", "exec " + d.inJob(`run --after $LOCKSTEP_JOB_ID -- true`)},
		"a new shell":  {"run", "--lock", "a", "--", "sh", "-c", "setsid " + d.inJob(`run --lock a -- true`)},
		"through wait": {"run", "--lock", "a", "--", "sh", "-c", d.inJob(`wait $(` + d.inJob(`run --detach --lock a -- true`) + `)`)},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := d.client(args...)
			require.Equal(t, 1, code, out)
			require.Contains(t, out, "The wait would never end: job ")
			require.Regexp(t, ` waits for (the new )?job( \d+)?; (the new )?job( \d+)? (needs lock/a, which job \d+ has|depends on job \d+)`, out)
		})
	}
	out, code := d.client("run", "--lock", "a", "--", "sh", "-c", d.inJob("run --lock b -- true"))
	require.Zero(t, code, out)
	out, code = d.client("run", "--lock", "a:shared", "--", "sh", "-c", d.inJob("run --lock a:shared -- true"))
	require.Zero(t, code, out)
}

// The record of a job names the job whose command has submitted it, also from a process that has another environment.
func TestTheParentOfASubmittedJob(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	for i, submit := range []string{d.inJob("run --detach -- true"), "env -i " + d.inJob("run --detach -- true")} {
		parent, child := int64(2*i+1), int64(2*i+2)
		out, code := d.client("run", "--", "sh", "-c", submit+"; true")
		require.Zero(t, code, out)
		require.Equal(t, strconv.FormatInt(child, 10)+"\n", out)
		content, err := os.ReadFile(d.path("lib", paths.RecordPath(child)))
		require.NoError(t, err)
		require.JSONEq(t, `{"parent": `+strconv.FormatInt(parent, 10)+`}`, string(content))
		content, err = os.ReadFile(d.path("lib", paths.RecordPath(parent)))
		require.NoError(t, err)
		require.JSONEq(t, `{"followed": true}`, string(content), "it has no parent")
	}
	// The name of a lock file that no process has shows nothing.
	c := d.clientCommand("run", "--detach", "--", "true")
	c.Env = append(os.Environ(), "LOCKSTEP_JOB=job_000001_1_2_3")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoFileExists(t, d.path("lib", paths.RecordPath(5)))
}

// The command of a user is a process of its job, also below a program that has made it another user's. One that has left the command is not.
func TestTheParentOfAUsersJob(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	root := d.startAgain("--socket-group", "lockstep")
	copyProgram(t, d.lockstep(), d.path("lockstep"))
	marks := d.path("marks")
	require.NoError(t, os.Mkdir(marks, 0o777))
	require.NoError(t, os.Chmod(marks, 0o777))
	submit := d.path("submit")
	require.NoError(t, os.WriteFile(submit, fmt.Appendf(nil, "#!/bin/sh\n%s --socket %s run --detach -- true > %[3]s/$1.new; mv %[3]s/$1.new %[3]s/$1\n",
		d.path("lockstep"), d.path("run", "socket", "ganeti-query"), marks), 0o755))
	alice := d.dialAs(asAlice)
	for i, c := range []struct {
		by     *client
		script string
		known  bool
	}{
		{alice, "%s", true},
		{alice, "env -i %s", true},
		{alice, "setsid --wait %s", true},
		{alice, "%s & wait", true},
		{alice, "setsid --fork %s; while [ ! -e %s ]; do sleep 0.01; done", false},
		{root, "setpriv --reuid 41000 --regid 41000 --groups 41600 %s", true},
	} {
		mark := filepath.Join(marks, strconv.Itoa(i))
		script := strings.Replace(strings.Replace(c.script, "%s", submit+" "+strconv.Itoa(i), 1), "%s", mark, 1)
		outer := c.by.submit(command("sh", "-c", script+"; true").with("cwd", "/"))
		require.Equal(t, "success", c.by.await(outer).Status)
		content, err := os.ReadFile(mark)
		require.NoError(t, err)
		var inner int64
		_, err = fmt.Sscan(string(content), &inner)
		require.NoError(t, err)
		want := int64(0)
		if c.known {
			want = outer
		}
		require.Equal(t, want, root.list(answer.JobSelection{IDs: []int64{inner}})[0].Parent, script)
	}
}

// A client that does not say that it waits is not refused. The cycle is named, also by a daemon that has started since.
func TestACycleOfWaitsIsNamed(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"expected", "plain"} {
		t.Run(order, func(t *testing.T) {
			d := newDaemon(t)
			d.start()
			c := d.dial()
			c.call("LockstepSetSettings", nil, map[string]any{"order": order})
			outer := c.submit(command("sh", "-c", d.inJob("watch $("+d.inJob("run --detach --lock a -- true")+")")).
				with("locks", [][2]string{{"lock/a", "exclusive"}}))
			inner := outer + 1
			check := func() {
				steps := []answer.WaitStep{{Job: outer, For: inner, By: answer.WaitProcess}, {Job: inner, For: outer, By: answer.WaitLock, Lock: "lock/a"}}
				require.Equal(t, steps, c.awaitCycle(outer).Steps)
				require.Equal(t, steps, c.awaitCycle(inner).Steps)
				// The client that watches asks again after each change, so that it waits for nothing for a moment.
				says := func(want string, args ...string) {
					require.EventuallyWithT(t, func(c *assert.CollectT) {
						text, code := d.client(args...)
						assert.Zero(c, code)
						assert.Contains(c, strings.Join(strings.Fields(text), " "), want)
					}, patience, 20*time.Millisecond)
				}
				says("cannot end: job 1 waits for job 2", "list", "--pending")
				says("waits for its end in a process", "locks", "--graph")
				says("(closes the cycle)", "locks", "--graph")
				says("It cannot end, because jobs wait for each other: job 1 waits for job 2; job 2 needs lock/a, which job 1 has.", "why", "1")
			}
			check()
			d.kill()
			d.start()
			c = d.dial()
			check()
			text, code := d.client("cancel", "--kill", "1")
			require.Zero(t, code, text)
			require.Equal(t, "success", c.await(inner).Status, "the lock is free")
		})
	}
}

// Jobs with run slots that wait for jobs without one are no reason to refuse a wait, because slots may be added. They are named.
func TestRunSlotsOfJobsThatWaitAreNamed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 1})
	outer := c.submit(command("sh", "-c", d.inJob("run -- true")))
	inner := outer + 1
	steps := []answer.WaitStep{{Job: outer, For: inner, By: answer.WaitProcess}}
	for _, id := range []int64{outer, inner} {
		r := c.awaitCycle(id)
		require.Equal(t, steps, r.Steps)
		require.EqualValues(t, 1, r.Slots)
	}
	bystander := c.submit(command("true"))
	require.Equal(t, steps, c.awaitCycle(bystander).Steps, "it needs a run slot, too")
	text, code := d.client("why", strconv.FormatInt(inner, 10))
	require.Zero(t, code, text)
	require.Contains(t, text, "The run slot does not become free, because the job that has it waits for a job that has none: job 1 waits for job 2.")

	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 2})
	for _, id := range []int64{outer, inner, bystander} {
		require.Equal(t, "success", c.await(id).Status)
	}
}
