package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/usage"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepUsage takes [query], a usage.Query. The answer is a usage.Page of jobs of the queue and of the archive, which are read from their
// files outside of the actors.
func lockstepUsage(c *request, ctx actor.Context, args []json.RawMessage) error {
	var q usage.Query
	if err := wire.Arguments(args, &q); err != nil {
		return fmt.Errorf("LockstepUsage: %w", err)
	}
	if err := q.Check(); err != nil {
		return fmt.Errorf("LockstepUsage: %w", err)
	}
	if c.Config.UsedFiles == nil {
		c.Fail(ctx, messages.GenericFailure("This daemon does not read what jobs have used"))
		return nil
	}
	finish := c.Await(ctx)
	c.Config.UsedFiles.Page(q, func(page []byte, err error) {
		finish(func(ctx actor.Context) {
			switch {
			case err != nil:
				c.Fail(ctx, messages.GenericFailure("The files of jobs cannot be read: "+err.Error()))
			case c.Admit(ctx, len(page)):
				c.Answer(ctx, wire.EncodeRawResult(page))
			}
		})
	})
	return nil
}
