package locks

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/lock"
	"lockstep/messages"
)

// setPause takes back the request of a paused job that waits for locks, and what
// it has got of them; it may ask again when it is not paused any more (design.md
// 8). A job that does not wait is in the middle of an opcode, and goes on.
func (l *locks) setPause(ctx actor.Context, m *messages.SetLockPause) {
	if !m.Paused {
		delete(l.paused, m.Id)
		return
	}
	l.paused[m.Id] = true
	if l.state == nil {
		return // the scheduler says it again when there is one
	}
	for _, o := range sortedOwners(l.owners.byJob[m.Id]) {
		if l.state.HasPending(o) {
			l.release(ctx, o)
		}
	}
}

// pausesListed: who is paused is known now. What jobs have asked for is done.
func (l *locks) pausesListed(ctx actor.Context, m *messages.SetLockPauses) {
	if m.Incarnation != uint64(l.incarnation) {
		return // meant for the former one
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

// isPaused: an owner is not to be given locks, or nobody knows yet whether it may.
func (l *locks) isPaused(o lock.Owner) bool {
	return !o.Named && (!l.pausesKnown || l.paused[int64(o.Job)])
}

// deferredCall is a call that waits until it is known who is paused: a rule that was
// acknowledged holds over a restart, too.
type deferredCall struct {
	call *clientCall
	stop func() bool
}

// deferredCallExpired: the time of a call that was put off is up.
type deferredCallExpired struct{ call *deferredCall }

// deferUntilPausesKnown keeps a call of a job while nobody knows whether that is paused, for as
// long as it would wait.
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
