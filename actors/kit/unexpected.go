package kit

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// Unexpected ends the type switch of every Receive: the framework's own
// messages are ignored, anything else is logged, by type alone: a message may
// hold secrets.
func Unexpected(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage, *actor.DeadLetterResponse:
		// A dead letter is noted where dead letters are.
	default:
		ctx.Logger().Warn("unexpected message", "actor", ctx.Self().GetId(), "op", fmt.Sprintf("%T", m))
	}
}
