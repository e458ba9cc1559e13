package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/messages"
)

// OpcodeFiles are the files that declare opcodes.
type OpcodeFiles interface {
	// Reload reads the files again and puts the catalogue in force, in a cluster on all nodes. It does not block; done is
	// called once, on any goroutine. After an error the former catalogue stays in force.
	Reload(done func(answer.OpcodesReloaded, error))
}

// opcodesReloaded is the result of a reload.
type opcodesReloaded struct {
	request uint64
	result  answer.OpcodesReloaded
	err     error
}

// lockstepReloadOpcodes takes []. The answer is an answer.OpcodesReloaded.
func lockstepReloadOpcodes(c *call, ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepReloadOpcodes: %w", err)
	}
	if c.config.OpcodeFiles == nil {
		c.fail(ctx, messages.GenericFailure("This daemon reads no files that declare opcodes"))
		return nil
	}
	c.session.Begin()
	c.setTimer(ctx, answerTimeout)
	number, self, root := c.session.Number(), ctx.Self(), ctx.ActorSystem().Root
	c.config.OpcodeFiles.Reload(func(r answer.OpcodesReloaded, err error) { root.Send(self, &opcodesReloaded{number, r, err}) })
	return nil
}

func (c *call) reloaded(ctx actor.Context, m *opcodesReloaded) {
	if m.err != nil {
		c.fail(ctx, messages.GenericFailure("The former opcodes stay in force: "+m.err.Error()))
		return
	}
	c.succeed(ctx, m.result)
}
