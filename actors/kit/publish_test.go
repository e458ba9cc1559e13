package kit

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// sent records who got what.
type sent Deferred[any]

func (s *sent) Send(to *actor.PID, message any) { (*Deferred[any])(s).Add(message, to) }

func TestPublish(t *testing.T) {
	a, b := actor.NewPID("local", "a"), actor.NewPID("local", "b")
	var s sent
	Publish(&s, []*actor.PID{b, a}, "news")
	Publish(&s, nil, "nobody gets this")
	require.Equal(t, sent{{"news", b}, {"news", a}}, s)
}
