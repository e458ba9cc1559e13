package main

import (
	"fmt"
	"os"
	osuser "os/user"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/paths"
)

func (c *client) list(s answer.JobSelection) []answer.ListedJob {
	c.t.Helper()
	var list answer.JobList
	c.call("LockstepListJobs", &list, s)
	return list.Jobs
}

// Names, the author of a kill and the cause of a job that is not run survive a killed daemon and the archive. The job
// files have no trace of them.
func TestNamesAndResultsSurviveAKill(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	var ids []int64
	c.call("LockstepSubmitJobs", &ids, []any{
		map[string]any{"ops": []op{command("sleep", "600")}, "name": "nightly"},
		map[string]any{"ops": []op{command("true").with("depends", [][]any{{-1, []string{"success"}}})}, "name": "report"},
		map[string]any{"ops": []op{command("sh", "-c", "exit 3")}},
		map[string]any{"ops": []op{command("sleep", "600").with("timeout", 0.1)}},
	})
	require.Len(t, ids, 4)
	d.kill()
	d.start()
	c = d.dial()
	require.Equal(t, "nightly", c.list(answer.JobSelection{Names: []string{"night*"}})[0].Name)
	c.awaitStatus(ids[0], "running")
	var killed []any
	c.call("CancelJob", &killed, ids[0], true)
	require.Equal(t, true, killed[0])
	for _, id := range ids {
		c.await(id)
	}
	me, err := osuser.Current()
	require.NoError(t, err)
	want := []string{"killed by " + me.Username, fmt.Sprintf("not run: job %d failed", ids[0]), "exit 3", "timed out"}
	results := func() (all []string) {
		for _, job := range c.list(answer.JobSelection{IDs: ids}) {
			all = append(all, job.Result)
		}
		return all
	}
	require.Equal(t, want, results())
	for _, id := range ids {
		text, err := os.ReadFile(d.path("lib", paths.JobPath(id)))
		require.NoError(t, err)
		for _, key := range []string{"nightly", `"name"`, "canceled_by", "not_run"} {
			require.NotContains(t, string(text), key)
		}
	}
	d.kill()
	d.start()
	c = d.dial()
	require.Equal(t, want, results())
	var archived []int
	c.call("AutoArchiveJobs", &archived, -1, 60)
	require.Equal(t, want, results())
	require.Empty(t, c.list(answer.JobSelection{}))
	found := c.list(answer.JobSelection{Names: []string{"nightly"}, Archived: true, Limit: 1})
	require.Len(t, found, 1)
	require.Equal(t, ids[0], found[0].ID)
	var why answer.Why
	c.call("LockstepWhy", &why, ids[0])
	require.Equal(t, "nightly", why.Name)
	require.Equal(t, want[0], why.Reasons[0].Result)
}

// A job whose second opcode depends on a job that fails says which opcode was not run.
func TestTheResultOfAJobThatEndsBetweenOpcodes(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	holds, open := d.gate("hold")
	first := c.submit(command("sh", "-c", holds["argv"].([]string)[2]+"; exit 3"))
	second := c.submit(command("true"), command("true").with("depends", [][]any{{first, []string{"success"}}}), command("true"))
	third := c.submit(command("true"), command("true").with("depends", [][]any{{second, []string{"success"}}}))
	open()
	for _, id := range []int64{first, second, third} {
		require.Equal(t, "error", c.await(id).Status)
	}
	listed := c.list(answer.JobSelection{IDs: []int64{second, third}})
	require.Equal(t, fmt.Sprintf("opcodes 2 to 3 not run: job %d ended with status error, success was required", first), listed[0].Result)
	require.Equal(t, fmt.Sprintf("opcode 2 not run: job %d ended with status error, success was required", second), listed[1].Result)
}
