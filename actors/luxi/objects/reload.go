package objects

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepReloadOpcodes takes []. The answer is an answer.OpcodesReloaded.
func lockstepReloadOpcodes(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepReloadOpcodes: %w", err)
	}
	if c.Config.OpcodeFiles == nil {
		c.Fail(ctx, messages.GenericFailure("This daemon reads no files that declare opcodes"))
		return nil
	}
	finish := c.Await(ctx)
	c.Config.OpcodeFiles.Reload(func(reloaded answer.OpcodesReloaded, err error) {
		finish(func(ctx actor.Context) {
			if err != nil {
				c.Fail(ctx, messages.GenericFailure("The former opcodes stay in force: "+err.Error()))
				return
			}
			c.Succeed(ctx, reloaded)
		})
	})
	return nil
}
