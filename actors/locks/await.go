package locks

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/answer"
	"lockstep/core/lock"
	"lockstep/messages"
)

// awaitMax is the maximum time of one call. A client that waits longer calls again and
// keeps its place.
const awaitMax = 10 * time.Minute

// AwaitResult answers Await. Neither granted nor withdrawn: the time is up. Blockers are
// the owners that were in the way when the call came.
type AwaitResult struct {
	Granted   bool         `json:"granted"`
	Withdrawn bool         `json:"withdrawn"`
	Blockers  []lock.Owner `json:"blockers"`
}

// waiter is an unanswered Await.
type waiter struct {
	call     *clientCall
	blockers []lock.Owner
	number   uint64
	stop     func() bool
}

// waitExpired is a timer: the time of a waiter is up.
type waitExpired struct {
	owner  lock.Owner
	number uint64
}

func (l *locks) await(ctx actor.Context, op Await, q *clientCall) {
	p := op.Pending
	wait := time.Duration(min(max(op.Seconds, 0), awaitMax.Seconds()) * float64(time.Second))
	if l.deferUntilPausesKnown(ctx, p.Owner, q, wait) {
		return
	}
	if l.isPaused(p.Owner) {
		l.release(ctx, p.Owner) // it may have got some locks since the lock manager started
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, AwaitResult{Withdrawn: true}, f) })
		return
	}
	u, err := l.state.SafeUpdateWaiting(l.config.Env.Clock().Now(), p)
	if err != nil {
		l.deny(ctx, q, err)
		return
	}
	l.updated(ctx, u)
	if u.Granted {
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, AwaitResult{Granted: true}, f) })
		return
	}
	l.protect(p.Owner)
	// A client changes the priority of a request by asking again.
	l.updated(ctx, l.state.Reprioritise(p.Owner, p.Priority))
	l.replaceWaiter(ctx, p.Owner, q)
	l.number++
	w := &waiter{call: q, blockers: u.Blockers, number: l.number}
	w.stop = kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), wait, ctx.Self(), &waitExpired{p.Owner, w.number})
	l.waiters[p.Owner] = w
}

// replaceWaiter ends the former Await of an owner that asks again, because the owner has
// lost the connection of the former one. If both calls have the same number, the client has
// repeated its call (LocksStarted), and one answer is enough.
func (l *locks) replaceWaiter(ctx actor.Context, o lock.Owner, q *clientCall) {
	w := l.takeWaiter(o)
	if w == nil || w.call.Request == q.Request && w.call.sender.Equal(q.sender) {
		return
	}
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { w.call.answer(ctx, AwaitResult{Blockers: w.blockers}, f) })
}

func (l *locks) waitExpired(ctx actor.Context, m *waitExpired) {
	if w := l.waiters[m.owner]; w != nil && w.number == m.number {
		l.takeWaiter(m.owner)
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { w.call.answer(ctx, AwaitResult{Blockers: w.blockers}, f) })
	}
}

// takeWaiter removes and returns the waiter of an owner, or nil. The caller must answer it.
func (l *locks) takeWaiter(o lock.Owner) *waiter {
	w := l.waiters[o]
	if w != nil {
		delete(l.waiters, o)
		w.stop()
	}
	return w
}

// notifyGranted tells an owner of its grant: by the answer to its Await, or, without one,
// by a signal (locks.md 2.4).
func (l *locks) notifyGranted(ctx actor.Context, o lock.Owner) {
	w := l.takeWaiter(o)
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) {
		switch {
		case w != nil:
			w.call.answer(ctx, AwaitResult{Granted: true}, f)
		case f == nil:
			l.config.Owners.Wake(o.Livelock, o.PID)
		}
	})
}

// notifyWithdrawn tells an owner that its request no longer waits.
func (l *locks) notifyWithdrawn(ctx actor.Context, o lock.Owner) {
	w := l.takeWaiter(o)
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { w.call.answer(ctx, AwaitResult{Withdrawn: true}, f) })
}

func (l *locks) waits(ctx actor.Context, q *clientCall) {
	now := l.config.Env.Clock().Now()
	waits := []answer.LockWait{}
	for _, p := range l.state.Pending() {
		w := answer.LockWait{Owner: ownerOf(p.Owner), Priority: p.Priority, Request: itemsOf(p.Request),
			Seconds: now.Sub(l.state.WaitingSince(p.Owner)).Seconds(), Withheld: l.state.Withheld(p.Owner)}
		for _, b := range l.state.Blockers(p.Owner) {
			w.Blockers = append(w.Blockers, ownerOf(b))
			names := []string{}
			for _, name := range l.state.BlockingLocks(p.Request, b) {
				names = append(names, name.String())
			}
			w.Locks = append(w.Locks, names)
		}
		waits = append(waits, w)
	}
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, waits, f) })
}

func ownerOf(o lock.Owner) answer.LockOwner {
	return answer.LockOwner{Who: answer.Principal{Job: int64(o.Job), Name: o.Name, Named: o.Named}, Livelock: o.Livelock, PID: o.PID}
}

func itemsOf(r lock.Request) []answer.LockItem {
	items := make([]answer.LockItem, len(r))
	for i, item := range r {
		items[i] = answer.LockItem{Lock: item.Lock.String(), Mode: item.Mode.String()}
	}
	return items
}
