package events

import (
	"lockstep/actors/locks"
	"lockstep/core/lock"
)

// locksMax is how many locks of an owner an event names: an event is news, not
// the lock monitor.
const locksMax = 32

// lockEvent is an event about an owner of locks: what it has and wants now, as
// pairs of a lock and a mode. An owner with neither is gone.
type lockEvent struct {
	Owner   string      `json:"owner"`
	Job     *int64      `json:"job"` // null for an owner that is no job
	Locks   [][2]string `json:"locks"`
	Held    int         `json:"held"` // how many there are
	Pending [][2]string `json:"pending"`
	Wanted  int         `json:"wanted"` // how many there are
}

func (e *events) locksPublished(m *locks.Published) {
	for _, r := range m.Records {
		e.trackWait(r)
		event := lockEvent{Owner: r.Owner.IdentityJSON(), Locks: [][2]string{}, Pending: [][2]string{}, Held: len(r.Locks)}
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
		e.publish(Locks, event)
	}
}

// trackWait measures waits by what is told of them.
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
