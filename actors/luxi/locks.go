package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/messages"
)

// askCore asks one of the actors that are rebuilt together something that may be
// asked again when they have been.
func (c *connection) askCore(ctx actor.Context, to *actor.PID, question func(request uint64) any, answers func(actor.Context, any)) {
	c.ask(ctx, repeatable, func(ctx actor.Context, request uint64) { ctx.Request(to, question(request)) }, answers)
	c.lostByRestart = coreRestart
}

// askLocks makes a call to the lock manager.
func (c *connection) askLocks(ctx actor.Context, function string, answer func(actor.Context, json.RawMessage)) {
	c.askCore(ctx, c.config.Locks,
		func(request uint64) any {
			return &messages.CallLocks{Request: request, Function: function, Args: []byte("[]")}
		},
		func(ctx actor.Context, m any) {
			a, ok := m.(*messages.CallLocksResult)
			switch {
			case !ok || a.Request != c.request:
			case a.Failure != nil:
				c.fail(ctx, a.Failure)
			default:
				answer(ctx, a.Result)
			}
		})
}

// encoded is a part of an answer, as another actor has encoded it.
type encoded = json.RawMessage

// lockstepLocks is who holds what, who waits for whom, and which jobs wait for the
// end of others, for `lockstep locks`: answer.Locks.
func (c *connection) lockstepLocks(ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepLocks: %w", err)
	}
	c.askLocks(ctx, locks.Rows, func(ctx actor.Context, rows json.RawMessage) {
		c.askLocks(ctx, locks.Waits, func(ctx actor.Context, waits json.RawMessage) {
			c.askDependencies(ctx, func(ctx actor.Context, jobs json.RawMessage) {
				c.succeed(ctx, answer.LocksOf[encoded, encoded, encoded]{Locks: rows, Waits: waits, Jobs: jobs})
			})
		})
	})
	return nil
}

func (c *connection) askDependencies(ctx actor.Context, answer func(actor.Context, json.RawMessage)) {
	c.askCore(ctx, c.config.Scheduler,
		func(request uint64) any { return &messages.ListDependencies{Request: request} },
		func(ctx actor.Context, m any) {
			if a, ok := m.(*messages.ListDependenciesResult); ok && a.Request == c.request {
				answer(ctx, a.Jobs)
			}
		})
}
