package lock

import (
	"slices"
	"time"
)

// request is a pending one, or one that is being decided on.
//
// Invariant: while it is pending, holder.pending is the request, it is in the heap of queue, and queue keeps it.
type request struct {
	Pending
	holder  *holder
	arrival int       // how many arrived before
	since   time.Time // when it arrived
	overdue bool      // may no longer be overtaken; its claims are in force
	queue   *queue
	at      int
	held    queue // those that wait because they may not overtake this one
}

func (r *request) place() *int { return &r.at }

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

// queue is the requests that wait for one thing: that nobody else is at a spot any more, or that they no longer have to
// stay behind a request. Just one of the two is set.
type queue struct {
	heap   heap[*request]
	spot   *spot
	behind *request
}

// keeps tells whether all requests in the queue are still blocked by what they wait for. At a spot with one owner, that
// owner's own request is none of them: wake sees to it by itself.
func (q *queue) keeps() bool {
	if q.spot != nil {
		return len(q.spot.owners) > 0
	}
	return q.behind.holder.pending == q.behind
}

// turn is one call, from its change to its result.
type turn struct {
	ready   heap[*candidate]
	granted []Owner
}

// candidate is a request to look at again, or a queue whose requests have to be, in their order, as long as it does not
// keep them. Then first is the request that was first when the candidate was made.
type candidate struct {
	first *request
	queue *queue
	at    int
}

func (c *candidate) before(d *candidate) bool { return c.first.before(d.first) }
func (c *candidate) place() *int              { return &c.at }

// begin starts a turn.
func (s *State) begin(now time.Time) {
	s.turn = turn{}
	s.promote(now)
}

// finish grants what the turn's changes have made possible, and says what happened. The owner is whoever called.
func (s *State) finish(caller *holder, changed bool) Update {
	for len(s.turn.ready.items) > 0 {
		c := s.turn.ready.items[0]
		s.turn.ready.remove(c)
		s.look(c)
	}
	u := Update{Granted: true}
	if changed && !slices.Contains(s.turn.granted, caller.owner) {
		u.Changed = append(u.Changed, caller.owner)
	}
	u.Changed = append(u.Changed, s.turn.granted...)
	for _, o := range s.turn.granted {
		if o != caller.owner {
			u.Notify = append(u.Notify, o)
		}
	}
	slices.SortFunc(u.Notify, Owner.Compare)
	s.turn = turn{}
	return u
}

// look tries the first request of a candidate, and makes the rest of it a candidate again.
func (s *State) look(c *candidate) {
	q := c.queue
	if q == nil {
		if c.first.holder.pending == c.first {
			s.retry(c.first)
		}
		return
	}
	if len(q.heap.items) == 0 || q.keeps() {
		return
	}
	if first := q.heap.items[0]; first == c.first {
		s.retry(first)
	}
	s.wakeAll(q)
}

// retry grants a pending request, or makes it wait for what blocks it now.
func (s *State) retry(r *request) {
	s.detach(r)
	if at := s.obstacle(r); at != nil {
		s.attach(r, at)
		return
	}
	s.unregister(r)
	s.turn.granted = append(s.turn.granted, r.Owner)
	s.apply(r.holder, r.Request)
	s.table.forget(r.holder)
}

// obstacle is the queue in which a request has to wait, nil if it can be granted.
func (s *State) obstacle(r *request) *queue {
	if at := s.table.blockedAt(r.holder, r.Request); at != nil {
		return &at.queue
	}
	if keeper := s.keeper(r); keeper != nil {
		return &keeper.held
	}
	return nil
}

// apply changes what an owner holds, and wakes those whom it had blocked.
func (s *State) apply(h *holder, req Request) { s.table.apply(h, req, s.wake) }

// wake makes candidates of those who wait at a spot that an owner has left and that may block them no longer.
func (s *State) wake(at *spot) {
	switch len(at.owners) {
	case 0:
		s.wakeAll(&at.queue)
	case 1:
		for last := range at.owners {
			if r := last.pending; r != nil && r.queue == &at.queue {
				s.turn.ready.push(&candidate{first: r})
			}
		}
	}
}

func (s *State) wakeAll(q *queue) {
	if len(q.heap.items) > 0 {
		s.turn.ready.push(&candidate{first: q.heap.items[0], queue: q})
	}
}

// enqueue makes a new request wait.
func (s *State) enqueue(r *request, at *queue) {
	r.holder.pending = r
	r.held.behind = r
	r.since = s.bypass.now
	s.pending++
	s.arrivals++
	s.attach(r, at)
	s.bypass.arrived(r)
}

// withdraw ends a wait without a grant.
func (s *State) withdraw(r *request) {
	s.detach(r)
	s.unregister(r)
}

// unregister makes a request, already out of its queue, pending no more, and wakes those that had to stay behind it.
func (s *State) unregister(r *request) {
	r.holder.pending = nil
	s.pending--
	s.unclaim(r)
	s.wakeAll(&r.held)
}

func (s *State) attach(r *request, at *queue) {
	r.queue = at
	at.heap.push(r)
	if at.behind != nil {
		s.bypass.kept++
	}
}

func (s *State) detach(r *request) {
	at := r.queue
	r.queue = nil
	at.heap.remove(r)
	if at.behind != nil {
		s.bypass.kept--
	} else {
		s.table.tidy(at.spot.entry)
	}
}
