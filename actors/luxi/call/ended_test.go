package call

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// A client may stay connected after a large answer. Its call keeps no part of it: the rest of the work has the whole answer.
func TestAnEndedCallKeepsNothing(t *testing.T) {
	c := &Call{next: func(actor.Context) {}}
	c.end()
	require.Nil(t, c.next)
	c.Later(nil, func(actor.Context) {})
	require.Nil(t, c.next)
}
