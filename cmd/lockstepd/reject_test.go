package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// pauseLate adds a rule of a low priority that pauses a job.
func (c *client) pauseLate(id int64) {
	c.t.Helper()
	c.call("ReplaceFilter", nil, nil, 9, [][]any{{"jobid", []any{"=", "id", id}}}, "PAUSE", []any{})
}

// A rule ends all jobs that a cancel would end: one that waits between two opcodes, one whose process waits for locks, and a queued
// one. An opcode that runs goes on, and its job ends before the next one. Each result names the rule.
func TestRejectEndsWhatACancelEnds(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"order": "plain"}) // jobs wait for locks in their processes
	first, openFirst := d.gate("first")
	between := c.submit(first, command("true"))
	c.awaitOpStatus(between, 0, "running")
	c.pauseLate(between)
	openFirst()
	c.awaitOpStatus(between, 1, "waiting")
	work, openWork := d.gate("work")
	locks := [][]string{{"node/a", "exclusive"}}
	runs := c.submit(work.with("locks", locks), command("true"))
	c.awaitOpStatus(runs, 0, "running")
	locked := c.submit(command("true").with("locks", locks))
	c.awaitStatus(locked, "waiting")
	c.call("ReplaceFilter", nil, nil, 9, [][]any{{"jobid", []any{">", "id", locked}}}, "PAUSE", []any{})
	queued := c.submit(command("true"))

	var rule string // before those that pause
	c.call("ReplaceFilter", &rule, nil, 0, []any{[]any{"opcode", []any{"=", "OP_ID", "OP_RUN_COMMAND"}}}, "REJECT", []any{})
	for _, id := range []int64{between, locked, queued} {
		require.Equal(t, "canceled", c.await(id).Status)
	}
	require.Equal(t, "running", c.query(runs).Status)
	openWork()
	for id, statuses := range map[int64][]string{runs: {"success", "canceled"}, between: {"success", "canceled"}, locked: {"canceled"}, queued: {"canceled"}} {
		j := c.await(id)
		require.Equal(t, statuses, j.Statuses)
		require.Contains(t, string(j.Results[len(statuses)-1]), "rejected by filter rule "+rule)
	}
}
