package objects

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/messages"
)

// encoded is a part of an answer that is JSON already.
type encoded = json.RawMessage

// lockstepLocks takes []. The answer is an answer.Locks: the holders of all locks, the lock owners that wait with their
// blockers, the first pending jobs that are not started because of locks, and the jobs that wait for the end of other jobs.
func lockstepLocks(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepLocks: %w", err)
	}
	call.AskLocks(c, ctx, locks.ListRows{}, func(ctx actor.Context, rows []answer.Lock) {
		call.AskLocks(c, ctx, locks.ListWaits{}, func(ctx actor.Context, waits []answer.LockWait) {
			askBlocked(c, ctx, func(ctx actor.Context, a *messages.ListDependenciesResult) {
				waits = append(slices.Clone(waits), blockedWaits(a.Blocked, c.Config.Env.Clock().Now())...)
				c.Succeed(ctx, answer.LocksOf[encoded, encoded, []answer.JobWait]{
					Locks: locks.Encode(rows),
					Waits: locks.Encode(waits),
					Jobs:  jobWaits(a.Jobs),
				})
			})
		})
	})
	return nil
}

// blockedWaits are jobs that are not started because of locks as waits for these locks, without a process, since their
// submission.
func blockedWaits(blocked []*messages.LockBlockedJob, now time.Time) []answer.LockWait {
	var waits []answer.LockWait
	for _, b := range blocked {
		wait := answer.LockWait{Owner: answer.LockOwner{Who: answer.Principal{Job: b.Id}}, Priority: int(b.Priority),
			Seconds: max(now.Sub(time.UnixMicro(b.ReceivedUs)).Seconds(), 0)}
		for _, l := range b.Wanted {
			wait.Request = append(wait.Request, answer.LockItem{Lock: l.Lock, Mode: wantedMode(l).String()})
		}
		for _, by := range b.BlockedBy {
			held := []string{} // none: the owner comes first
			if by.Holds {
				held = by.Locks
			}
			who := answer.Principal{Job: by.Job, Name: by.Owner, Named: by.Named}
			wait.Blockers = append(wait.Blockers, answer.LockOwner{Who: who, Livelock: by.Livelock, PID: int(by.Pid)})
			wait.Locks = append(wait.Locks, held)
		}
		waits = append(waits, wait)
	}
	return waits
}

// jobWaits are the dependencies of jobs in the shape of the answer to a client.
func jobWaits(jobs []*messages.JobDependencies) []answer.JobWait {
	all := make([]answer.JobWait, len(jobs))
	for i, j := range jobs {
		all[i] = answer.JobWait{ID: j.Id, On: make([]answer.AwaitedJob, len(j.On))}
		for k, on := range j.On {
			all[i].On[k] = answer.AwaitedJob{ID: on.Job, Statuses: append([]string{}, on.Statuses...), Process: on.Process}
		}
	}
	return all
}
