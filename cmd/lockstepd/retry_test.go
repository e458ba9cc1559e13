package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// retried is a command that a shell runs, with a policy.
func retried(policy map[string]any, script string) op {
	return command("sh", "-c", script).with("retry", policy)
}

// awaitTry waits until the job waits for a try, and returns when that is due.
func (c *client) awaitTry(id int64, number int) (due time.Time) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		listed := c.list(answer.JobSelection{IDs: []int64{id}})[0]
		if listed.Due == nil || listed.Try.Number != number {
			return false
		}
		due = listed.Due.Time
		return true
	}, patience, 5*time.Millisecond)
	return due
}

// Between two tries a job has no process and no locks. A daemon that is killed then does not count.
func TestACommandIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(retried(map[string]any{"times": 3, "delay": 2}, `echo $LOCKSTEP_TRY; [ $LOCKSTEP_TRY = 3 ]`).
		with("locks", [][]string{{"lock/a", "exclusive"}}))
	due := c.awaitTry(id, 2)
	require.Equal(t, "waiting", c.query(id).Status)
	other := c.submit(command("true").with("locks", [][]string{{"lock/a", "exclusive"}}))
	require.Equal(t, "success", c.await(other).Status)
	d.kill()
	d.start()
	c = d.dial()
	j := c.await(id)
	require.Equal(t, "success", j.Status)
	require.Equal(t, []string{"1", "2", "3"}, j.linesOf("stdout"))
	require.False(t, time.Now().Before(due))
}

// A policy without the cause of the failure, and a cancel between two tries, end the job. A process that has died is a try only by name.
func TestWhatIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	other := c.submit(retried(map[string]any{"times": 5, "on": []any{75}}, `echo $LOCKSTEP_TRY; exit 3`))
	lost := c.submit(retried(map[string]any{"times": 5, "delay": 0.01}, `echo $LOCKSTEP_TRY; kill -9 $PPID`))
	named := c.submit(retried(map[string]any{"times": 1, "delay": 0.01, "on": []any{"lost"}}, `[ $LOCKSTEP_TRY = 2 ] || kill -9 $PPID`))
	canceled := c.submit(retried(map[string]any{"times": 5, "delay": 1000}, `echo $LOCKSTEP_TRY; exit 1`))
	j := c.await(other)
	require.Equal(t, []string{"1"}, j.linesOf("stdout"))
	require.Contains(t, string(j.Results[0]), `"exit_status": 3`)
	require.Equal(t, "error", c.await(lost).Status)
	require.Nil(t, c.list(answer.JobSelection{IDs: []int64{lost}})[0].Due)
	require.Equal(t, "success", c.await(named).Status)
	c.awaitTry(canceled, 2)
	done, text := c.ask("CancelJob", canceled, false)
	require.True(t, done, text)
	j = c.await(canceled)
	require.Equal(t, "canceled", j.Status)
	require.Equal(t, []string{"1"}, j.linesOf("stdout"))
}

// A daemon that ends between two tries takes the secrets with it: the job fails, and says why.
func TestSecretsBetweenTries(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(retried(map[string]any{"times": 1, "delay": 1}, `exit 1`).with("secret_env", map[string]any{"KEY": "secret"}))
	c.awaitTry(id, 2)
	d.kill()
	d.start()
	j := d.dial().await(id)
	require.Equal(t, "error", j.Status)
	require.Contains(t, string(j.Results[0]), "the values of secret_env are gone")
}

// The master of three nodes is killed between two tries. The next one is made by the next master, at its time.
func TestClusterTriesAgainAfterAKillOfTheMaster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	client := master.dial()
	id := client.submit(retried(map[string]any{"times": 2, "delay": 8}, `echo $LOCKSTEP_TRY; [ $LOCKSTEP_TRY = 2 ]`))
	due := client.awaitTry(id, 2)
	master.crash()
	next := c.master()
	require.NotEqual(t, master.name, next.name)
	j := next.dial().await(id)
	require.Equal(t, "success", j.Status, "%s", j.Results)
	require.Equal(t, []string{"1", "2"}, j.linesOf("stdout"))
	require.False(t, time.Now().Before(due))
}
