package conn_test

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
)

// Each question of a sender is taken once, while tens of thousands of others ask.
func TestTaken(t *testing.T) {
	var taken conn.Taken
	client := &actor.PID{Id: "conn-1.1"}
	require.False(t, taken.IsRepeated(client, 7))
	require.True(t, taken.IsRepeated(client, 7))
	require.False(t, taken.IsRepeated(&actor.PID{Id: "conn-2.1"}, 7), "another sender has its own numbers")
	for i := range 30_000 {
		require.False(t, taken.IsRepeated(&actor.PID{Id: fmt.Sprintf("other-%d", i)}, 1))
	}
	require.True(t, taken.IsRepeated(client, 7))
	require.False(t, taken.IsRepeated(client, 8))
	require.True(t, taken.IsRepeated(client, 8))
	for i := range 100_000 {
		taken.IsRepeated(&actor.PID{Id: fmt.Sprintf("later-%d", i)}, 1)
	}
	require.False(t, taken.IsRepeated(client, 8), "forgotten, so that the memory is bounded")
}
