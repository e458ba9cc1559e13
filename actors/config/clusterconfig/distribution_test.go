package clusterconfig_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/distributor"
	"lockstep/actors/kittest"
)

// A flush waits until the nodes of its group have the configuration, and so does a change that they must have (config.md 8.2).
// Other changes do not wait.
func TestAnswersThatWaitForNodes(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, nil)
		b.storage = startStorage(t, e)
		b.nodes = e.Probe("distributor")
		b.start()
		b.locked(nil)
		kittest.Expect[*distributor.Announce](b.nodes)
		b.Send(b.cluster, &distributor.Started{Incarnation: 1})
		require.Equal(t, string(fresh(t).JSON()), string(kittest.Expect[*distributor.Distribute](b.nodes).Config.JSON()))

		answered := func(number uint64, group string, force bool) {
			t.Helper()
			m := kittest.Expect[*distributor.Await](b.nodes)
			require.Equal(t, distributor.Await{Request: m.Request, Group: group, Force: force}, *m)
			b.client.Quiet()
			b.nodes.Ask(b.cluster, &distributor.AwaitResult{Request: m.Request})
			_, err := b.expect(number)
			require.NoError(t, err)
		}
		answered(b.send("flushConfigGroup", `["g"]`), "g", true)
		answered(b.send("flushConfig", `[]`), "", true)
		node, _ := b.current().Nodes.Get("n")
		number := b.send("updateNode", "["+string(node.JSON())+"]")
		require.Equal(t, int64(2), kittest.Expect[*distributor.Distribute](b.nodes).Config.Serial, "the nodes are told before the wait")
		answered(number, "", false)
		require.Equal(t, "11000", b.call("allocatePort", "[]"))
	})
}
