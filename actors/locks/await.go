package locks

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/answer"
	"lockstep/core/lock"
	"lockstep/messages"
)

// awaitMax bounds one call that waits: who wants to wait longer asks again, and
// keeps its place.
const awaitMax = 10 * time.Minute

// AwaitResult is the answer to Await. Neither granted nor withdrawn means that
// the time is up; the blockers are who was in the way when the call came.
type AwaitResult struct {
	Granted   bool         `json:"granted"`
	Withdrawn bool         `json:"withdrawn"`
	Blockers  []lock.Owner `json:"blockers"`
}

// waiter is a call that waits for its owner's request to be granted.
type waiter struct {
	call     *clientCall
	blockers []lock.Owner
	number   uint64
	stop     func() bool
}

// waitExpired: the time of a waiter is up.
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
		l.release(ctx, p.Owner) // it may have got some since the lock manager started
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, AwaitResult{Withdrawn: true}, f) })
		return
	}
	u, err := l.state.SafeUpdateWaiting(l.config.Env.Clock().Now(), p)
	if err != nil {
		l.deny(ctx, q, err)
		return
	}
	l.changed(ctx, lock.CallResult{Changed: u.Changed, Notify: u.Notify})
	if u.Granted {
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, AwaitResult{Granted: true}, f) })
		return
	}
	// To ask again with another priority is how a client changes it.
	l.changed(ctx, lock.CallResult{Changed: l.state.Reprioritise(p.Owner, p.Priority).Changed})
	l.replaceWaiter(ctx, p.Owner, q)
	l.number++
	w := &waiter{call: q, blockers: u.Blockers, number: l.number}
	w.stop = kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), wait, ctx.Self(), &waitExpired{p.Owner, w.number})
	l.waiters[p.Owner] = w
}

// replaceWaiter ends the former call of an owner that asks again: it has lost the
// connection on which it waited. If it has not, the call has only been sent twice
// (LocksStarted), and has one answer.
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

// takeWaiter is the call that waits, if there is one; it must be answered.
func (l *locks) takeWaiter(o lock.Owner) *waiter {
	w := l.waiters[o]
	if w != nil {
		delete(l.waiters, o)
		w.stop()
	}
	return w
}

// notifyGranted tells an owner that it has got what it waited for: on its connection, if
// it waits there, or else by a signal (locks.md 2.4).
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

// notifyWithdrawn tells an owner that its request does not wait any more.
func (l *locks) notifyWithdrawn(ctx actor.Context, o lock.Owner) {
	w := l.takeWaiter(o)
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { w.call.answer(ctx, AwaitResult{Withdrawn: true}, f) })
}

func (l *locks) waits(ctx actor.Context, q *clientCall) {
	now := l.config.Env.Clock().Now()
	waits := []answer.LockWait{}
	for _, p := range l.state.Pending() {
		w := answer.LockWait{Owner: ownerOf(p.Owner), Priority: p.Priority, Request: itemsOf(p.Request),
			Seconds: now.Sub(l.state.WaitingSince(p.Owner)).Seconds()}
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
