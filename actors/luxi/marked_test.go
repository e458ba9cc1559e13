package luxi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/messages"
)

// Jobs that are shown as waiting for locks are in Pending of the locks that others keep from them. A job that has asked for a
// lock itself is there once.
func TestMarkedJobsArePending(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("Query", `["lock", ["name", "mode", "owner", "pending"], null]`)
		rows := asked[*locks.Operate](c.client, c.locks)
		require.Equal(t, locks.ListRows{}, rows.Operation)
		c.Tell(&locks.OperateResult{Request: rows.Request, Value: []answer.Lock{
			{Name: "node/a", Mode: "exclusive", Owners: []string{"1"}, Pending: []answer.LockWaiter{{Mode: "exclusive", Owner: "2"}}}, {Name: "node/b", Mode: "shared", Owners: []string{"1"}}}})
		m := asked[*messages.ListDependencies](c.client, c.scheduler)
		require.True(t, m.Marked)
		exclusive := func(name string) *messages.WantedLock { return &messages.WantedLock{Lock: name, Exclusive: true} }
		c.Tell(&messages.ListDependenciesResult{Request: m.Request, Blocked: []*messages.LockBlockedJob{
			{Id: 2, Wanted: []*messages.WantedLock{exclusive("node/a")}},
			{Id: 3, Wanted: []*messages.WantedLock{exclusive("node/a"), {Lock: "node/c"}}}}})
		got := decodedAs[struct{ Data [][][2]any }](t, c.succeeded())
		require.Equal(t, decodedAs[[][][2]any](t, `[
			[[0, "node/a"], [0, "exclusive"], [0, ["1"]], [0, [["exclusive", ["2"]], ["exclusive", ["3"]]]]],
			[[0, "node/b"], [0, "shared"], [0, ["1"]], [0, []]],
			[[0, "node/c"], [0, null], [0, []], [0, [["shared", ["3"]]]]]]`), got.Data)
	})
}
