package locks

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/messages"
)

// setPause pauses a job, or ends that. A paused job may ask again when it is no longer paused (design.md "Differences"). A job that does
// not wait executes an opcode and keeps its locks.
func (l *locks) setPause(ctx actor.Context, m *messages.SetLockPause) {
	if !m.Paused {
		l.allow(ctx, m.Id)
		return
	}
	l.paused[m.Id] = m.Withhold
	if l.state == nil {
		return // the scheduler sends SetLockPauses to the next state
	}
	owners := sortedOwners(l.owners.byJob[m.Id])
	for _, o := range owners {
		if l.state.Choosing(o) {
			l.updated(ctx, l.state.RemovePending(l.config.Env.Clock().Now(), o))
		}
	}
	if m.Withhold > 0 {
		l.updated(ctx, l.state.Withhold(l.config.Env.Clock().Now(), job.ID(m.Id), owners))
		l.publishToScheduler(ctx, l.published(owners, false)) // their requests are withheld
		return
	}
	for _, o := range owners { // what it has got of its request is free
		if l.state.HasPending(o) {
			l.release(ctx, o)
		}
	}
}

// allow ends the pause of a job: its withheld requests may be granted.
func (l *locks) allow(ctx actor.Context, id int64) {
	delete(l.paused, id)
	if l.state == nil {
		return
	}
	l.updated(ctx, l.state.Allow(l.config.Env.Clock().Now(), job.ID(id)))
	for _, o := range sortedOwners(l.owners.byJob[id]) {
		l.protect(o)
	}
}

// pausesListed takes all paused jobs, grants the requests of the others, and carries out the deferred calls.
func (l *locks) pausesListed(ctx actor.Context, m *messages.SetLockPauses) {
	if m.Incarnation != uint64(l.incarnation) {
		return // it is for a former incarnation
	}
	l.pausesKnown = true
	former := l.paused
	l.paused = map[int64]uint64{}
	for _, id := range m.Ids {
		l.setPause(ctx, &messages.SetLockPause{Id: id, Paused: true})
	}
	for _, p := range m.Withheld {
		l.setPause(ctx, p)
	}
	for _, id := range slices.Sorted(maps.Keys(former)) {
		if _, paused := l.paused[id]; !paused {
			l.allow(ctx, id)
		}
	}
	if l.state != nil {
		// After all pauses are set: until then the request of a paused job could be granted here.
		l.updated(ctx, l.state.AllowOthers(l.config.Env.Clock().Now()))
	}
	// Last: these calls are decided with all pauses in force.
	calls := l.deferredCalls
	l.deferredCalls = nil
	for _, p := range calls {
		p.stop()
		l.handle(ctx, p.requester.Operate, p.requester.sender)
	}
}

// isPaused reports whether an owner must get no locks, because its job is paused or because
// the paused jobs are not known yet.
func (l *locks) isPaused(o lock.Owner) bool {
	_, paused := l.paused[int64(o.Job)]
	return !o.Named && (!l.pausesKnown || paused)
}

// deferredCall is a call that waits for SetLockPauses, so that an acknowledged PAUSE rule
// also holds over a restart.
type deferredCall struct {
	requester *requester
	stop      func() bool
}

// deferredCallExpired is a timer: the time of a deferred call is up.
type deferredCallExpired struct{ call *deferredCall }

// deferUntilPausesKnown defers the call of a job until the paused jobs are known, at most for the call's own timeout. It reports whether
// it has deferred the call; that of a program is never deferred.
func (l *locks) deferUntilPausesKnown(ctx actor.Context, o lock.Owner, q *requester, wait time.Duration) bool {
	if l.pausesKnown || o.Named {
		return false
	}
	p := &deferredCall{requester: q}
	p.stop = kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), wait, ctx.Self(), &deferredCallExpired{p})
	l.deferredCalls = append(l.deferredCalls, p)
	return true
}

func (l *locks) deferredCallExpired(ctx actor.Context, m *deferredCallExpired) {
	if at := slices.Index(l.deferredCalls, m.call); at >= 0 {
		l.deferredCalls = slices.Delete(l.deferredCalls, at, at+1)
		m.call.requester.answer(ctx, AwaitResult{}, nil)
	}
}

// ForbidBypass has all jobs whose requests nothing may overtake, however young they are. After a start of the lock manager there
// are none until it comes.
type ForbidBypass struct{ Ids []int64 }

func (l *locks) forbidBypass(m *ForbidBypass) {
	clear(l.unpassable)
	for _, id := range m.Ids {
		l.unpassable[id] = true
		for _, o := range sortedOwners(l.owners.byJob[id]) {
			l.protect(o)
		}
	}
}

// protect lets nothing overtake the pending request of an owner, if it is of such a job.
func (l *locks) protect(o lock.Owner) {
	if l.state != nil && !o.Named && l.unpassable[int64(o.Job)] {
		l.state.ForbidBypass(o)
	}
}
