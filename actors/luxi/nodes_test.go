package luxi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/actors/luxi/call"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// withNodes runs a test with a daemon that belongs to a cluster.
func withNodes(t *testing.T, f func(t *testing.T, c *client, nodes *kittest.Probe)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), store: e.Probe("store")}
		nodes := e.Probe("nodes")
		b.luxi = e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: b.queue.PID, Store: b.store.PID, Replicator: nodes.PID, Catalogue: opcode.Builtin()}))
		f(t, b.connect(), nodes)
	})
}

func TestNodesOfACluster(t *testing.T) {
	withNodes(t, func(t *testing.T, c *client, nodes *kittest.Probe) {
		c.Call(call.NodesMethod, `[]`)
		m := conntest.Asked[*messages.GetNodes](c.Client, nodes)
		require.True(t, m.WithStates)
		c.Tell(&messages.GetNodesResult{Request: m.Request, Self: "n1", Master: "n1", MasterAddress: "a", Members: []*messages.Member{{Name: "n1", Address: "a", Voter: true}}})
		require.JSONEq(t, `{"success":true,"result":{"self":"n1","master":"n1","master_address":"a","nodes":[
			{"name":"n1","address":"a","voter":true,"master":true,"answers":false,"applied":0,"behind":0,"error":"","joining":false}]}}`, c.Answer())
	})
}

// A change is sent once: the replicator may have made it before a restart of the queue.
func TestChangesOfNodes(t *testing.T) {
	for method, what := range map[string]messages.ChangeNodes_What{"LockstepNodeRemove": messages.ChangeNodes_REMOVE, "LockstepNodePromote": messages.ChangeNodes_TRANSFER} {
		withNodes(t, func(t *testing.T, c *client, nodes *kittest.Probe) {
			c.Call(method, `["n2"]`)
			m := conntest.Asked[*messages.ChangeNodes](c.Client, nodes)
			require.EqualExportedValues(t, &messages.ChangeNodes{Request: m.Request, What: what, Name: "n2"}, m)
			c.Send(c.luxi, &messages.QueueStarted{Incarnation: 2})
			nodes.Quiet()
			c.Tell(&messages.ChangeNodesResult{Request: m.Request})
			require.JSONEq(t, `{"success":true,"result":null}`, c.Answer())
			c.Call(method, `["n2"]`)
			m = conntest.Asked[*messages.ChangeNodes](c.Client, nodes)
			c.Tell(&messages.ChangeNodesResult{Request: m.Request, Failure: &messages.Failure{Class: "OpPrereqError", Text: "no such node"}})
			require.Contains(t, c.Answer(), "no such node")
		})
	}
}

func TestCheckOfNodes(t *testing.T) {
	withNodes(t, func(t *testing.T, c *client, nodes *kittest.Probe) {
		c.Call("LockstepNodeCheck", `[true]`)
		m := conntest.Asked[*messages.CheckNodes](c.Client, nodes)
		require.True(t, m.Repair)
		c.Tell(&messages.CheckNodesResult{Request: m.Request, Files: 9, Nodes: []*messages.NodeDifferences{
			{Name: "n2", Answers: true, Repaired: 1, Files: []*messages.FileDifference{{Path: "queue/job-1", What: messages.FileDifference_EXTRA}}}}})
		require.JSONEq(t, `{"success":true,"result":{"files":9,"nodes":[
			{"name":"n2","answers":true,"error":"","differs":[{"path":"queue/job-1","what":"extra"}],"repaired":1}]}}`, c.Answer())
	})
}

func TestADaemonWithoutACluster(t *testing.T) {
	onBench(t, func(t *testing.T, _ *bench, c *client) {
		c.Call(call.NodesMethod, `[]`)
		require.JSONEq(t, `{"success":true,"result":{"self":"","master":"","master_address":"","nodes":[]}}`, c.Answer())
		for method, args := range map[string]string{"LockstepNodeRemove": `["n2"]`, "LockstepNodePromote": `["n2"]`, "LockstepNodeCheck": `[false]`} {
			c.Call(method, args)
			require.Contains(t, c.Answer(), "This daemon belongs to no cluster")
		}
	})
}
