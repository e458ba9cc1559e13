package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// In Ganeti's place the output of a command is delivered and kept as elsewhere. Ganeti's own opcodes have messages only.
func TestTheOutputOfCommandsInGanetisPlace(t *testing.T) {
	t.Parallel()
	g := newGanetiQueue(t)
	const last = "750000"
	wanted := string(numbers(750_000))
	for _, more := range [][]string{nil, {"--keep-output"}} {
		out, code := g.client(append(append([]string{"run"}, more...), "--", "seq", last)...)
		require.Zero(t, code)
		require.True(t, out == wanted, "%d of %d bytes", len(out), len(wanted))
	}
	out, code := g.client("log", "1")
	require.Equal(t, 125, code)
	require.Contains(t, out, "output is missing")
	_, code = g.client("log", "--partial", "1")
	require.Zero(t, code)
	out, code = g.client("log", "2")
	require.Zero(t, code)
	require.True(t, strings.HasPrefix(out, wanted), "%d of %d bytes", len(out), len(wanted))
	out, code = g.client("submit", "OP_INSTANCE_STARTUP", "instance_name=x", "keep_output=true")
	require.NotZero(t, code)
	require.Contains(t, out, "keep_output")
}
