package kit

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// Unexpected ends the type switch of every Receive. It ignores the framework's messages and
// logs the type of any other message, not its content, which may be secret.
func Unexpected(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage, *actor.DeadLetterResponse:
		// Dead letters are logged by observe.
	default:
		ctx.Logger().Warn("actor received a message that it does not handle; the message is dropped",
			"actor", ctx.Self().GetId(), "op", fmt.Sprintf("%T", m))
	}
}
