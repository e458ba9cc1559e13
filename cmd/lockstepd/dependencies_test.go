package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// When the first job of a long chain fails, all other jobs fail at once. None of them is
// started, and each has the reason in its result.
func TestAChainFailsWithItsFirstJob(t *testing.T) {
	t.Parallel()
	length := longtest.Times(2000)
	d := newDaemon(t)
	d.start()
	c := d.dial()
	jobs := [][]op{{command("false")}}
	for range length - 1 {
		jobs = append(jobs, []op{command("true").with("depends", [][]any{{-1, []string{"success"}}})})
	}
	ids := c.submitMany(jobs)
	last := c.await(ids[length-1])
	require.Equal(t, "error", last.Status)
	require.Contains(t, string(last.Results[0]), "Dependency error: job ")
	var rows [][]json.RawMessage
	c.call("QueryJobs", &rows, ids[1:], []string{"status", "start_ts"})
	for i, row := range rows {
		require.Equal(t, []string{`"error"`, "null"}, []string{string(row[0]), string(row[1])}, i)
	}
}

// A job may depend on thousands of jobs, and runs when the last of them has ended.
func TestAJobDependsOnThousands(t *testing.T) {
	t.Parallel()
	first := longtest.Times(2000)
	d := newDaemon(t)
	d.start()
	c := d.dial()
	jobs, depends := [][]op{{command("false")}}, [][]any{{int64(1), []string{"error"}}}
	for i := range first - 1 {
		jobs = append(jobs, []op{command("true").with("depends", [][]any{{1, []string{"success"}}})})
		depends = append(depends, []any{int64(i + 2), []string{"error"}})
	}
	c.submitMany(jobs)
	require.Equal(t, "success", c.await(c.submit(command("true").with("depends", depends))).Status)
}

func (c *client) submitMany(jobs [][]op) []int64 {
	c.t.Helper()
	var answers [][2]json.RawMessage
	c.call("SubmitManyJobs", &answers, jobs)
	ids := make([]int64, len(answers))
	for i, answer := range answers {
		require.Equal(c.t, "true", string(answer[0]), string(answer[1]))
		require.NoError(c.t, json.Unmarshal(answer[1], &ids[i]))
	}
	return ids
}
