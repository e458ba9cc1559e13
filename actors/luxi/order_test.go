package luxi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/scheduler"
)

func TestOrderWithoutJobs(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepOrder", `[null, null]`)
		m := asked[*scheduler.TakeSnapshot](c.client, c.scheduler)
		require.Empty(t, m.Ids)
		c.Tell(&scheduler.Snapshot{Request: m.Request})
		require.JSONEq(t, `{"estimate": true, "jobs": [], "order": ""}`, c.succeeded())
	})
}

// A preview is of a pending job.
func TestAPreviewOfNoJob(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepOrder", `[[3, "4"], 7]`)
		m := asked[*scheduler.TakeSnapshot](c.client, c.scheduler)
		require.Equal(t, []int64{3, 4, 7}, m.Ids)
		c.Tell(&scheduler.Snapshot{Request: m.Request})
		class, text := c.failed()
		require.Equal(t, "JobLost", class)
		require.Equal(t, "Job 7 is not pending", text)
	})
}

func TestTooManyJobsForOneOrder(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepOrder", `[[`+strings.Repeat("1,", 1000)+`1], null]`)
		_, text := c.failed()
		require.Equal(t, "Failed to parse request: LockstepOrder: 1001 jobs in one call, at most 1000", text)
	})
}
