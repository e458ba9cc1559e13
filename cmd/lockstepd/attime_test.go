package main

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// submitAt submits a job that starts at a time.
func (c *client) submitAt(at time.Time, op op) int64 {
	c.t.Helper()
	var ids []int64
	c.call("LockstepSubmitJobs", &ids, []any{map[string]any{"ops": []any{op}, "at": at}})
	return ids[0]
}

func (c *client) reschedule(id int64, at any) (done bool, text string) {
	c.t.Helper()
	var outcomes [][2]any
	c.call("LockstepOrderJobs", &outcomes, "reschedule", []int64{id}, at)
	return outcomes[0][0].(bool), outcomes[0][1].(string)
}

// A job starts at its time and not before it, also if its daemon is killed meanwhile. Jobs that come after it wait, and others do not.
func TestAJobStartsAtItsTime(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	at := time.Now().Add(3 * time.Second)
	id := c.submitAt(at, command("date", "+%s%N"))
	next := c.submit(command("true").with("depends", []any{[]any{id, []string{"success"}}}))
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	require.Equal(t, "queued", c.query(id).Status)
	require.Equal(t, []string{"due"}, c.reasonKinds(id))
	d.kill()
	d.start()
	c = d.dial()
	listed := c.list(answer.JobSelection{IDs: []int64{id}})[0]
	require.WithinDuration(t, at, listed.Due.Time, time.Millisecond)
	require.Equal(t, "success", c.await(id).Status)
	require.Equal(t, "success", c.await(next).Status)
	listed = c.list(answer.JobSelection{IDs: []int64{id}})[0]
	require.Nil(t, listed.Due)
	require.False(t, listed.Started.Before(listed.At.Time), "it started at %v, before %v", listed.Started, listed.At)
}

// The order ends with the jobs that are not due, by their times, although nothing was asked for.
func TestTheOrderShowsJobsThatAreNotDue(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	later := c.submitAt(time.Now().Add(3*time.Hour), command("true"))
	late := c.submitAt(time.Now().Add(2*time.Hour), command("true"))
	require.Regexp(t, fmt.Sprintf(`(?m)^ *%d .* later than .* it starts at a time.*\n *%d .* later than `, late, later), d.said("order"))
}

// A time that has passed while no daemon ran is now.
func TestATimeThatPassesWithoutADaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	at := time.Now().Add(time.Second)
	id := d.dial().submitAt(at, command("true"))
	d.kill()
	require.Eventually(t, func() bool { return time.Now().After(at) }, patience, 5*time.Millisecond)
	d.start()
	require.Equal(t, "success", d.dial().await(id).Status)
}

func TestAJobIsRescheduled(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	first, second := c.submitAt(time.Now().Add(time.Hour), command("true")), c.submit(command("sleep", "1000"))
	var status answer.QueueStatus
	c.call("LockstepStatus", &status)
	require.Equal(t, int64(1), status.NotDue)
	require.Eventually(t, func() bool { return c.query(second).Status == "running" }, patience, 5*time.Millisecond)
	done, text := c.reschedule(second, "now")
	require.False(t, done)
	require.Contains(t, text, "has started, so its time cannot change")
	done, text = c.reschedule(first, time.Now().Add(2*time.Hour))
	require.True(t, done, text)
	require.Equal(t, "queued", c.query(first).Status)
	d.kill()
	d.start()
	c = d.dial()
	require.Equal(t, []string{"due"}, c.reasonKinds(first))
	done, text = c.reschedule(first, "now")
	require.True(t, done, text)
	require.Equal(t, "success", c.await(first).Status)
	done, text = c.reschedule(first, "now")
	require.False(t, done, text)
	done, text = c.ask("CancelJob", second, true)
	require.True(t, done, text)
	c.await(second)
}

// The master of three nodes is killed before the time of a job. The next master starts it at that time.
func TestClusterStartsAtItsTimeAfterAKillOfTheMaster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	at := time.Now().Add(8 * time.Second)
	client := master.dial()
	id := client.submitAt(at, command("true"))
	master.crash()
	next := c.master()
	require.NotEqual(t, master.name, next.name)
	client = next.dial()
	j := client.await(id)
	require.Equal(t, "success", j.Status, "%s", j.Results)
	require.False(t, client.list(answer.JobSelection{IDs: []int64{id}})[0].Started.Before(at))
}

// The client waits for the end of a job that starts later, and refuses a time that has passed.
func TestRunWithADelay(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	run := func(args ...string) (string, error) {
		args = append([]string{"--socket", d.path("run", "socket", "ganeti-query"), "run"}, args...)
		output, err := exec.Command(d.lockstep(), args...).CombinedOutput()
		return string(output), err
	}
	began := time.Now()
	output, err := run("--delay", "2s", "--", "echo", "done")
	require.NoError(t, err, output)
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	require.Contains(t, output, " starts at "+began.Format("2006-01-02 "))
	output, err = run("--at", "yesterday", "--", "true")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 2, exit.ExitCode())
	require.Contains(t, output, "has passed; it is ")
}
