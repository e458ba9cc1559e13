package locks

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/lock"
	"lockstep/messages"
)

// setPause withdraws the waiting request of a paused job and frees what the job has got of
// it. The job may ask again when it is no longer paused (design.md 8). A job that does not
// wait executes an opcode and keeps its locks.
func (l *locks) setPause(ctx actor.Context, m *messages.SetLockPause) {
	if !m.Paused {
		delete(l.paused, m.Id)
		return
	}
	l.paused[m.Id] = true
	if l.state == nil {
		return // the scheduler sends SetLockPauses to the next state
	}
	for _, o := range sortedOwners(l.owners.byJob[m.Id]) {
		if l.state.HasPending(o) {
			l.release(ctx, o)
		}
	}
}

// pausesListed takes all paused jobs and carries out the deferred calls.
func (l *locks) pausesListed(ctx actor.Context, m *messages.SetLockPauses) {
	if m.Incarnation != uint64(l.incarnation) {
		return // it is for a former incarnation
	}
	l.pausesKnown = true
	clear(l.paused)
	for _, id := range m.Ids {
		l.setPause(ctx, &messages.SetLockPause{Id: id, Paused: true})
	}
	calls := l.deferredCalls
	l.deferredCalls = nil
	for _, p := range calls {
		p.stop()
		l.handle(ctx, p.call.Call, p.call.sender)
	}
}

// isPaused reports whether an owner must get no locks, because its job is paused or because
// the paused jobs are not known yet.
func (l *locks) isPaused(o lock.Owner) bool {
	return !o.Named && (!l.pausesKnown || l.paused[int64(o.Job)])
}

// deferredCall is a call that waits for SetLockPauses, so that an acknowledged PAUSE rule
// also holds over a restart.
type deferredCall struct {
	call *clientCall
	stop func() bool
}

// deferredCallExpired is a timer: the time of a deferred call is up.
type deferredCallExpired struct{ call *deferredCall }

// deferUntilPausesKnown defers the call of a job until the paused jobs are known, at most
// for the call's own timeout.
func (l *locks) deferUntilPausesKnown(ctx actor.Context, o lock.Owner, q *clientCall, wait time.Duration) bool {
	if l.pausesKnown || o.Named {
		return false
	}
	p := &deferredCall{call: q}
	p.stop = kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), wait, ctx.Self(), &deferredCallExpired{p})
	l.deferredCalls = append(l.deferredCalls, p)
	return true
}

func (l *locks) deferredCallExpired(ctx actor.Context, m *deferredCallExpired) {
	if at := slices.Index(l.deferredCalls, m.call); at >= 0 {
		l.deferredCalls = slices.Delete(l.deferredCalls, at, at+1)
		m.call.call.answer(ctx, AwaitResult{}, nil)
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
