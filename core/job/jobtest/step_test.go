package jobtest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/job/jobtest"
)

// Every step of a generated job is in the table of transitions, and a job that has ended stays as it is.
func TestStepsAreInTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := jobtest.Queued(1, slices.Repeat([]string{jobtest.Delay()}, rapid.IntRange(1, 3).Draw(t, "opcodes"))...)
		for range 12 {
			before := j.Clone()
			jobtest.Step(j, func(events []job.Event) job.Event { return rapid.SampledFrom(events).Draw(t, "event") })
			if before.Status().Final() {
				require.Equal(t, before, j)
			}
			for i := range j.Ops {
				from, to := before.Ops[i].Status, j.Ops[i].Status
				possible := from == to
				for _, e := range jobtest.Events(from) {
					step, _ := from.On(e)
					possible = possible || step.To == to
				}
				require.True(t, possible, "opcode %d: %s to %s", i, from, to)
			}
		}
	})
	require.Empty(t, jobtest.Events(job.Success))
	require.Equal(t, []job.Event{job.Succeed, job.Fail}, jobtest.Events(job.Running))
	for _, s := range jobtest.Ends() {
		require.True(t, s.Final())
	}
}
