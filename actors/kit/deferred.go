package kit

import "github.com/asynkron/protoactor-go/actor"

// Deferral is a message that an actor handles or answers later, with its sender.
type Deferral[M any] struct {
	Message M
	Sender  *actor.PID
}

// Deferred are the messages that an actor cannot handle yet, in order of arrival.
type Deferred[M any] []Deferral[M]

// Add defers a message.
func (d *Deferred[M]) Add(message M, sender *actor.PID) {
	*d = append(*d, Deferral[M]{message, sender})
}

// HandleAll empties d and has each message handled, in order. A message that handle defers again is handled by the next HandleAll.
func (d *Deferred[M]) HandleAll(ctx actor.Context, handle func(ctx actor.Context, message M, sender *actor.PID)) {
	all := *d
	*d = nil
	for _, deferral := range all {
		handle(ctx, deferral.Message, deferral.Sender)
	}
}
