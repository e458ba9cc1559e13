package kit

import "github.com/asynkron/protoactor-go/actor"

// Sender sends a message without an answer. An actor.Context is one.
type Sender interface {
	Send(to *actor.PID, message any)
}

// Publish sends one message to each of these actors, in their order.
func Publish(ctx Sender, to []*actor.PID, message any) {
	for _, pid := range to {
		ctx.Send(pid, message)
	}
}
