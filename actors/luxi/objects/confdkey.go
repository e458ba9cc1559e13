package objects

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/confdkey"
	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepRotateConfdKey takes [] and replaces the key of queries about the configuration. The answer, an answer.KeyRotated, comes after
// all nodes that run accept the new key.
func lockstepRotateConfdKey(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepRotateConfdKey: %w", err)
	}
	if c.Config.ConfdKey == nil {
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState,
			"The key is that of a Ganeti cluster: gnt-cluster renew-crypto --new-confd-hmac-key replaces it"))
		return nil
	}
	q := call.ToCore(c.Config.ConfdKey, func(number uint64) any { return &confdkey.Rotate{Request: number} })
	call.AskFallible(c, ctx, q, func(ctx actor.Context, a *confdkey.Rotated) {
		c.Succeed(ctx, answer.KeyRotated{First: a.First, OverlapSeconds: int64(a.Overlap.Seconds())})
	})
	return nil
}
