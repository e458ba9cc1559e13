package lock

import (
	"slices"
	"time"

	"lockstep/core/heap"
)

// request is a pending request, or a request under decision.
//
// Invariant: while it is pending, holder.pending is the request, it is in the heap of queue, and queue blocks it.
type request struct {
	Pending
	holder     *holder
	arrival    int       // the number of requests that arrived before
	since      time.Time // when it arrived
	overdue    bool      // may no longer be overtaken; its reservations are in force
	unpassable bool      // overdue although it is not old
	queue      *queue
	index      int   // in the heap of queue
	followers  queue // requests that wait because they must not overtake this one
}

func (r *request) before(q *request) bool {
	switch {
	case r.overdue != q.overdue:
		return r.overdue
	case r.overdue:
		return r.arrival < q.arrival
	default:
		return r.Compare(&q.Pending) < 0
	}
}

// requestOrder is the order in which the requests of a queue are tried.
type requestOrder struct{}

func (requestOrder) Before(a, b *request) bool   { return a.before(b) }
func (requestOrder) Moved(r *request, index int) { r.index = index }

// queue is the requests that wait for one thing: that no other owner is at a point, that a request which they must not
// overtake is no longer pending, or, with neither point nor behind, that their job is allowed to get locks.
type queue struct {
	heap   heap.Heap[*request, requestOrder]
	point  *waitPoint
	behind *request
}

// stillBlocks reports whether all requests in the queue are still blocked. At a point with one owner, that owner's own
// request is not: wakeWaiters handles it.
func (q *queue) stillBlocks() bool {
	if q.point != nil {
		return len(q.point.owners) > 0
	}
	return q.behind.holder.pending == q.behind
}

// grantPass is the state of one call, from its change to its result.
type grantPass struct {
	ready   heap.Heap[grantCandidate, candidateOrder]
	granted []Owner
}

// grantCandidate is a request to try again, or a queue whose requests are to be tried in order as long as it does not
// block them. For a queue, first is the request that was first when the candidate was made.
type grantCandidate struct {
	first *request
	queue *queue
}

// candidateOrder lets the queue go first whose first request goes before those of the other queues.
type candidateOrder struct{}

func (candidateOrder) Before(a, b grantCandidate) bool { return a.first.before(b.first) }
func (candidateOrder) Moved(grantCandidate, int)       {}

// beginPass begins the evaluation of one change: nothing is granted yet, and requests that have waited too long become overdue, so that
// no later one overtakes them.
func (s *State) beginPass(now time.Time) {
	s.pass = grantPass{}
	s.markOverdue(now)
}

// finishPass grants what the changes of the pass have made possible, and returns what happened. caller is the owner of
// the call.
func (s *State) finishPass(caller *holder, changed bool) Update {
	// A grant may downgrade or release locks, and so make further candidates. The pass ends when none is left.
	for s.pass.ready.Len() > 0 {
		s.tryCandidate(s.pass.ready.Pop())
	}
	// After the requests: an owner that takes any locks of a set gets what they leave.
	s.tryChoices()
	u := Update{Granted: true}
	if changed && !slices.Contains(s.pass.granted, caller.owner) {
		// The caller first: the record of its release precedes those of the grants that the release has made possible.
		u.Changed = append(u.Changed, caller.owner)
	}
	u.Changed = append(u.Changed, s.pass.granted...)
	for _, o := range s.pass.granted {
		if o != caller.owner {
			u.Notify = append(u.Notify, o)
		}
	}
	slices.SortFunc(u.Notify, Owner.Compare)
	s.pass = grantPass{}
	return u
}

// tryCandidate tries the first request of a candidate, unless it is no longer the first or the queue is still blocked, and makes the rest
// of its queue candidates again.
func (s *State) tryCandidate(c grantCandidate) {
	q := c.queue
	if q == nil {
		if c.first.holder.pending == c.first {
			s.retry(c.first)
		}
		return
	}
	if q.heap.Len() == 0 || q.stillBlocks() {
		return
	}
	if first := q.heap.First(); first == c.first {
		s.retry(first)
	}
	s.wakeAll(q)
}

// retry grants a pending request, or makes it wait for what blocks it now.
func (s *State) retry(r *request) {
	s.detach(r)
	if at := s.blockingQueue(r); at != nil {
		s.attach(r, at)
		return
	}
	s.unregister(r)
	s.pass.granted = append(s.pass.granted, r.Owner)
	s.apply(r.holder, r.Request)
	s.table.forget(r.holder)
}

// blockingQueue is the queue in which a request has to wait, nil if it can be granted.
func (s *State) blockingQueue(r *request) *queue {
	if at := s.table.blockedAt(r.holder, r.Request); at != nil {
		return &at.waiters
	}
	if ahead := s.requestAhead(r); ahead != nil {
		return &ahead.followers
	}
	return nil
}

// apply changes what an owner holds, and wakes the requests that it had blocked.
func (s *State) apply(h *holder, req Request) { s.table.apply(h, req, s.wakeWaiters) }

// wakeWaiters makes candidates of the requests at a point that an owner has left, if the point may no longer block
// them.
func (s *State) wakeWaiters(at *waitPoint) {
	s.choices.leave(at)
	switch len(at.owners) {
	case 0:
		s.wakeAll(&at.waiters)
	case 1:
		for last := range at.owners {
			if r := last.pending; r != nil && r.queue == &at.waiters {
				s.pass.ready.Push(grantCandidate{first: r})
			}
		}
	}
}

func (s *State) wakeAll(q *queue) {
	if q.heap.Len() > 0 {
		s.pass.ready.Push(grantCandidate{first: q.heap.First(), queue: q})
	}
}

// enqueue makes a new request wait at a queue, as the pending request of its owner.
func (s *State) enqueue(r *request, at *queue) {
	r.holder.pending = r
	r.followers.behind = r
	r.since = s.bypass.now
	s.pendingCount++
	s.arrivalCount++
	s.attach(r, at)
	if !at.isWithheld() {
		s.bypass.track(r)
	}
}

// withdraw takes a pending request away without a grant, and wakes those that waited behind it.
func (s *State) withdraw(r *request) {
	s.detach(r)
	s.unregister(r)
}

// unregister makes a request, already out of its queue, not pending, and wakes the requests that waited behind it.
func (s *State) unregister(r *request) {
	r.holder.pending = nil
	s.pendingCount--
	s.unreserve(r)
	s.wakeAll(&r.followers)
}

func (s *State) attach(r *request, at *queue) {
	r.queue = at
	at.heap.Push(r)
	if at.behind != nil {
		s.bypass.behindCount++
	}
}

func (s *State) detach(r *request) {
	at := r.queue
	r.queue = nil
	at.heap.Remove(r.index)
	switch {
	case at.behind != nil:
		s.bypass.behindCount--
	case at.point != nil:
		s.table.dropUnused(at.point.entry)
	}
}
