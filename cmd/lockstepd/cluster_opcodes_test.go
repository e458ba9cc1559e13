package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// A reload acts on all nodes, whichever is asked, and says what happened on each: opcodes declared, a mistake, no answer.
func TestClusterReloadsOpcodesOnAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	declare := func(m *member, content string) {
		require.NoError(t, os.MkdirAll(m.path("lib", "opcodes.d"), 0o750))
		require.NoError(t, os.WriteFile(m.path("lib", "opcodes.d", "greet.yaml"), []byte(content), 0o640))
	}
	reload := func(m *member) (nodes []answer.NodeOpcodes, code int) {
		out, errorText, code := m.tryCLI("opcode", "reload", "--json")
		var reloaded answer.OpcodesReloaded
		require.NoError(t, json.Unmarshal([]byte(out), &reloaded), "%s%s", out, errorText)
		return reloaded.Nodes, code
	}
	for _, m := range c.nodes {
		declare(m, "{name: OP_SITE_GREET, command: [echo, hello]}")
	}
	for _, asked := range c.nodes {
		nodes, code := reload(asked)
		require.Equal(t, []answer.NodeOpcodes{{Node: "n1", Declared: 1}, {Node: "n2", Declared: 1}, {Node: "n3", Declared: 1}}, nodes)
		require.Zero(t, code)
	}
	out := c.nodes[1].cli("submit", "--wait", "OP_SITE_GREET")
	require.Equal(t, "1\n", out, "the new opcode is accepted, and succeeds")

	declare(c.nodes[1], "{name: OP_SITE_GREET, comand: [echo]}")
	nodes, code := reload(c.nodes[2])
	require.Equal(t, 1, code)
	require.Contains(t, nodes[1].Error, "greet.yaml")
	require.Equal(t, 1, nodes[0].Declared)
	require.Equal(t, 1, nodes[2].Declared)

	c.nodes[2].end()
	c.eventually("the other nodes answer", func() error {
		_, _, code := c.nodes[0].tryCLI("status")
		if code != 0 {
			return os.ErrDeadlineExceeded
		}
		return nil
	})
	nodes, code = reload(c.nodes[0])
	require.Equal(t, 1, code)
	require.Equal(t, "n3", nodes[2].Node)
	require.NotEmpty(t, nodes[2].Error)
	require.Equal(t, 1, nodes[0].Declared)
}
