package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/messages"
)

// encoded is a part of an answer that is JSON already.
type encoded = json.RawMessage

// lockstepLocks takes []. The answer is an answer.Locks: the holders of all locks, the lock owners that wait with their
// blockers, and the jobs that wait for the end of other jobs.
func lockstepLocks(c *call, ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepLocks: %w", err)
	}
	askLocks(c, ctx, locks.ListRows{}, func(ctx actor.Context, rows []answer.Lock) {
		c.askLockWaits(ctx, func(ctx actor.Context, waits []answer.LockWait) {
			c.askDependencies(ctx, func(ctx actor.Context, jobs []*messages.JobDependencies) {
				c.succeed(ctx, answer.LocksOf[encoded, encoded, []answer.JobWait]{Locks: locks.Encode(rows), Waits: locks.Encode(waits), Jobs: jobWaits(jobs)})
			})
		})
	})
	return nil
}
