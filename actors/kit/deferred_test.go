package kit

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// Each message is handled once, in order of arrival, with its own sender.
func TestDeferredHandlesMessagesInOrder(t *testing.T) {
	var d Deferred[string]
	a, b := actor.NewPID("local", "a"), actor.NewPID("local", "b")
	d.Add("first", a)
	d.Add("second", b)
	d.Add("third", a)

	var handled Deferred[string]
	handle := func(_ actor.Context, message string, sender *actor.PID) { handled.Add(message, sender) }
	d.HandleAll(nil, handle)
	require.Equal(t, Deferred[string]{{"first", a}, {"second", b}, {"third", a}}, handled)

	d.HandleAll(nil, handle)
	require.Len(t, handled, 3, "they are handled")
}

// A message whose time has not come is deferred again, behind those that came while the others were handled.
func TestDeferredAgain(t *testing.T) {
	var d Deferred[string]
	d.Add("first", nil)
	d.Add("second", nil)

	var handled []string
	d.HandleAll(nil, func(_ actor.Context, message string, sender *actor.PID) {
		handled = append(handled, message)
		if message == "first" {
			d.Add("new", nil)
		}
		d.Add(message, sender)
	})
	require.Equal(t, []string{"first", "second"}, handled)
	require.Equal(t, Deferred[string]{{"new", nil}, {"first", nil}, {"second", nil}}, d)
}
