package locks

import (
	"slices"
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

// AwaitResult answers Await and AwaitUnion. Neither granted nor withdrawn: the time is up. Blockers are
// the owners that were in the way when the call came. Locks are those that the owner of an AwaitUnion has got of its choice.
type AwaitResult struct {
	Granted   bool         `json:"granted"`
	Withdrawn bool         `json:"withdrawn"`
	Blockers  []lock.Owner `json:"blockers"`
	Locks     []lock.Item  `json:"locks,omitempty"`
}

// waiter is an unanswered Await or AwaitUnion.
type waiter struct {
	requester *requester
	blockers  []lock.Owner
	choice    []lock.Item // of AwaitUnion; nil: it is an Await
	number    uint64
	stop      func() bool
}

// waitExpired is a timer: the time of a waiter is up.
type waitExpired struct {
	owner  lock.Owner
	number uint64
}

func (l *locks) await(ctx actor.Context, op Await, q *requester) {
	p, wait := op.Pending, waitOf(op.Seconds)
	if l.mayNotWait(ctx, p.Owner, q, wait) {
		return
	}
	l.releaseFormer(ctx, p.Owner)
	u, err := l.state.SafeUpdateWaiting(l.config.Env.Clock().Now(), p)
	if err != nil {
		l.deny(ctx, q, err)
		return
	}
	// Recorded before the answer is queued: notifyWhenWritten lets it wait for the records so far.
	l.updated(ctx, u)
	if u.Granted {
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, AwaitResult{Granted: true}, f) })
		return
	}
	l.protect(p.Owner)
	// A client changes the priority of a request by asking again.
	l.updated(ctx, l.state.Reprioritise(p.Owner, p.Priority))
	// The former call of the owner ends before this one waits: a grant has one receiver.
	l.replaceWaiter(ctx, p.Owner, q)
	l.addWaiter(ctx, p.Owner, &waiter{requester: q, blockers: u.Blockers}, wait)
}

// awaitUnion carries out AwaitUnion. Only as long as the call has no answer the owner waits, so that no lock is given to a client that
// has left.
func (l *locks) awaitUnion(ctx actor.Context, op AwaitUnion, q *requester) {
	wait := waitOf(op.Seconds)
	if l.mayNotWait(ctx, op.Owner, q, wait) {
		return
	}
	// Before Choose: updated would take the former call for one whose request was withdrawn.
	l.replaceWaiter(ctx, op.Owner, q)
	l.releaseFormer(ctx, op.Owner)
	u, err := l.state.Choose(l.config.Env.Clock().Now(), op.Owner, op.Count, op.Items)
	if err != nil {
		l.deny(ctx, q, err)
		return
	}
	l.updated(ctx, u)
	l.owners.update(op.Owner, l.state.HasOwner(op.Owner), l.config.Owners)
	if u.Granted {
		got := AwaitResult{Granted: true, Locks: l.chosen(op.Owner, op.Items)}
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, got, f) })
		return
	}
	l.addWaiter(ctx, op.Owner, &waiter{requester: q, blockers: u.Blockers, choice: op.Items}, wait)
}

// chosen are the items whose locks an owner holds, in lock order.
func (l *locks) chosen(o lock.Owner, items []lock.Item) []lock.Item {
	held := slices.Clone(l.state.Allocation().Held(o))
	return slices.DeleteFunc(held, func(h lock.Item) bool {
		return !slices.ContainsFunc(items, func(i lock.Item) bool { return i.Lock == h.Lock && i.Mode <= h.Mode })
	})
}

// waitOf is how long a call waits, from its argument in seconds: at most awaitMax.
func waitOf(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), awaitMax.Seconds()) * float64(time.Second))
}

// mayNotWait defers the call of a job until the paused jobs are known. A paused job loses its locks, and is answered that its request is
// withdrawn. It reports whether it has done either, so that the caller does nothing more.
func (l *locks) mayNotWait(ctx actor.Context, o lock.Owner, q *requester, wait time.Duration) bool {
	if l.deferUntilPausesKnown(ctx, o, q, wait) {
		return true
	}
	if !l.isPaused(o) {
		return false
	}
	l.release(ctx, o) // it may have got some locks since the lock manager started
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, AwaitResult{Withdrawn: true}, f) })
	return true
}

func (l *locks) addWaiter(ctx actor.Context, o lock.Owner, w *waiter, wait time.Duration) {
	l.number++
	w.number = l.number
	w.stop = kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), wait, ctx.Self(), &waitExpired{o, w.number})
	l.waiters[o] = w
}

// replaceWaiter ends the former Await of an owner that asks again, because the owner has
// lost the connection of the former one. If both calls have the same number, the client has
// repeated its call (LocksStarted), and one answer is enough.
func (l *locks) replaceWaiter(ctx actor.Context, o lock.Owner, q *requester) {
	w := l.takeWaiter(o)
	if w == nil || w.requester.Request == q.Request && w.requester.sender.Equal(q.sender) {
		return
	}
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) {
		w.requester.answer(ctx, AwaitResult{Blockers: w.blockers}, f)
	})
}

func (l *locks) waitExpired(ctx actor.Context, m *waitExpired) {
	if w := l.waiters[m.owner]; w != nil && w.number == m.number {
		l.takeWaiter(m.owner)
		if w.choice != nil {
			// From the moment of its answer the owner waits no longer: a lock given later would have no receiver.
			l.state.DropChoice(m.owner)
			l.owners.update(m.owner, l.state.HasOwner(m.owner), l.config.Owners)
		}
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) {
			w.requester.answer(ctx, AwaitResult{Blockers: w.blockers}, f)
		})
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
	granted := AwaitResult{Granted: true}
	if w != nil && w.choice != nil {
		granted.Locks = l.chosen(o, w.choice)
	}
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) {
		switch {
		case w != nil:
			w.requester.answer(ctx, granted, f)
		case f == nil:
			l.config.Owners.Wake(o.Livelock, o.PID)
		}
	})
}

// notifyWithdrawn tells an owner that its request no longer waits, when that is written.
func (l *locks) notifyWithdrawn(ctx actor.Context, o lock.Owner) {
	w := l.takeWaiter(o)
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { w.requester.answer(ctx, AwaitResult{Withdrawn: true}, f) })
}

func (l *locks) waits(ctx actor.Context, q *requester) {
	now := l.config.Env.Clock().Now()
	waits := []answer.LockWait{}
	for _, p := range l.state.Pending() {
		w := l.lockWait(p, now.Sub(l.state.WaitingSince(p.Owner)), l.state.Blockers(p.Owner))
		w.Withheld = l.state.Withheld(p.Owner)
		waits = append(waits, w)
	}
	for _, c := range l.state.Choices() {
		blockers := l.state.ChoiceBlockers(c.Owner)
		waits = append(waits, l.lockWait(lock.Pending{Owner: c.Owner, Request: c.Items}, now.Sub(c.Since), blockers))
	}
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, waits, f) })
}

func (l *locks) lockWait(p lock.Pending, since time.Duration, blockers []lock.Owner) answer.LockWait {
	w := answer.LockWait{Owner: ownerOf(p.Owner), Priority: p.Priority, Request: itemsOf(p.Request), Seconds: since.Seconds()}
	for _, b := range blockers {
		w.Blockers = append(w.Blockers, ownerOf(b))
		names := []string{}
		for _, name := range l.state.BlockingLocks(p.Request, b) {
			names = append(names, name.String())
		}
		w.Locks = append(w.Locks, names)
	}
	return w
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
