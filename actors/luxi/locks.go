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

// askLocks makes a call to the lock manager, whose answer is a V.
func askLocks[V any](c *connection, ctx actor.Context, op locks.Operation, then func(actor.Context, V)) {
	c.askCore(ctx, c.config.Locks,
		func(request uint64) any { return &locks.Call{Request: request, Operation: op} },
		func(ctx actor.Context, m any) {
			a, ok := m.(*locks.CallResult)
			switch {
			case !ok || a.Request != c.request:
			case a.Failure != nil:
				c.fail(ctx, a.Failure)
			default:
				then(ctx, a.Value.(V))
			}
		})
}

// encoded is a part of an answer that is JSON already.
type encoded = json.RawMessage

// lockstepLocks is who holds what, who waits for whom, and which jobs wait for the
// end of others, for `lockstep locks`: answer.Locks.
func (c *connection) lockstepLocks(ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepLocks: %w", err)
	}
	askLocks(c, ctx, locks.ListRows{}, func(ctx actor.Context, rows []answer.Lock) {
		askLocks(c, ctx, locks.ListWaits{}, func(ctx actor.Context, waits []answer.LockWait) {
			c.askDependencies(ctx, func(ctx actor.Context, jobs []*messages.JobDependencies) {
				c.succeed(ctx, answer.LocksOf[encoded, encoded, []answer.JobWait]{Locks: locks.Encode(rows), Waits: locks.Encode(waits), Jobs: jobWaits(jobs)})
			})
		})
	})
	return nil
}

func (c *connection) askDependencies(ctx actor.Context, then func(actor.Context, []*messages.JobDependencies)) {
	c.askCore(ctx, c.config.Scheduler,
		func(request uint64) any { return &messages.ListDependencies{Request: request} },
		func(ctx actor.Context, m any) {
			if a, ok := m.(*messages.ListDependenciesResult); ok && a.Request == c.request {
				then(ctx, a.Jobs)
			}
		})
}
