package events

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/core/lock"
)

// locksMax is the maximum number of locks of one kind in an event, which keeps events
// short.
const locksMax = 32

func (e *events) locksPublished(ctx actor.Context, m *locks.OwnersPublished) {
	for _, r := range m.Records {
		e.trackWait(r)
		event := answer.LockEvent{Owner: r.Owner.IdentityJSON(), Locks: [][2]string{}, Pending: [][2]string{}, Held: len(r.Locks)}
		if !r.Owner.Named {
			id := int64(r.Owner.Job)
			event.Job = &id
		}
		for _, i := range r.Locks[:min(len(r.Locks), locksMax)] {
			event.Locks = append(event.Locks, [2]string{i.Lock.String(), i.Mode.String()})
		}
		if r.Pending != nil {
			event.Wanted = len(r.Pending.Request)
			for _, i := range r.Pending.Request[:min(event.Wanted, locksMax)] {
				event.Pending = append(event.Pending, [2]string{i.Lock.String(), i.Mode.String()})
			}
		}
		e.publish(ctx, Locks, event)
	}
}

// trackWait measures how long an owner waits for locks, from its records, and reports it to the feed at the end of the wait.
func (e *events) trackWait(r lock.Record) {
	since, waits := e.waiting[r.Owner]
	now := e.config.Env.Clock().Now()
	switch {
	case r.Pending != nil && !waits:
		e.waiting[r.Owner] = now
	case r.Pending == nil && waits:
		delete(e.waiting, r.Owner)
		e.config.Feed.Waited(now.Sub(since))
	default:
		return
	}
	e.config.Feed.Waiting(len(e.waiting))
}
