package lock

import (
	"errors"
	"slices"
	"time"

	"lockstep/core/job"
)

// State is the lock manager: the allocation, and the requests that wait, at most one for each owner (locks.md 1.6).
//
// Its decisions depend only on who holds what, the pending requests, and, with bounded bypass (bypass.go), their age.
// A pending request waits at one of the points where it is blocked, so for at least one of its blockers. It is tried
// again only when that point stops blocking it.
//
// After each change, the first pending request that can be granted is granted, repeatedly, until there is none. First
// is by the pending order. With bounded bypass, overdue requests come before all others, in order of arrival. Where no
// pending request releases anything (no known client sends such), this is what Ganeti does. Where one does, Ganeti's
// order depends on its index, which locks.md 1.6 forbids to matter.
//
// Between two calls every pending request is valid, and blocked or withheld (withhold.go).
type State struct {
	table        *Table
	pendingCount int // how many
	arrivalCount int // the number of requests that have arrived
	bypass       bypass
	withheld     withheld
	choices      choices
	pass         grantPass
}

// Settings are the parameters of a State: the hierarchy of locks, and the limits of waiting.
type Settings struct {
	// Hierarchy is Implied, except in tests.
	Hierarchy Hierarchy
	// BypassAfter is the time after which a pending request may no longer be overtaken by later ones that conflict with
	// it; zero or less is never, which is Ganeti's behaviour.
	BypassAfter time.Duration
	// WithholdJobs withholds the requests of all jobs until State.AllowOthers.
	WithholdJobs bool
}

// New is a State with no owners.
func New(s Settings) *State {
	state := &State{table: NewTable(s.Hierarchy), bypass: bypass{limit: max(s.BypassAfter, 0)}, withheld: withheld{jobs: map[job.ID]*queue{}}}
	if s.WithholdJobs {
		state.withheld.others = &queue{}
	}
	return state
}

// Update is the result of a request: whether it was granted, whom it waits for, and whose waiting requests were granted with it.
type Update struct {
	// Granted: the owner holds every item in its mode.
	Granted bool
	// Blockers are the owners that block the request, in owner order. It is empty if the request was granted, and may be
	// if it is withheld. If only an overdue request is ahead of it, Blockers is that request's owner.
	Blockers []Owner
	// Notify are the other owners whose pending requests were granted, in owner order.
	Notify []Owner
	// Changed are the owners whose Record has changed, in the order of the changes. If the records are written in this
	// order, no prefix of them gives a lock to two owners.
	Changed []Owner
}

// ErrPending is the error for an owner that asks for locks while it waits for others.
var ErrPending = errors.New("cannot update locks while having pending requests")

// Allocation is the table of held locks, for reading. It changes with the State.
func (s *State) Allocation() *Table { return s.table }

// HasPending reports whether the owner has a request that waits.
func (s *State) HasPending(o Owner) bool {
	h := s.table.holders[o]
	return h != nil && h.pending != nil
}

// HasOwner reports whether the owner holds something or waits.
func (s *State) HasOwner(o Owner) bool { return s.table.holders[o] != nil || s.Choosing(o) }

// WaitingSince is when the owner's pending request was made; the zero time if it
// has none.
func (s *State) WaitingSince(o Owner) time.Time {
	if h := s.table.holders[o]; h != nil && h.pending != nil {
		return h.pending.since
	}
	return time.Time{}
}

// Owners are the owners that hold something or wait, in owner order. The death of their processes must be detected.
func (s *State) Owners() []Owner { return s.table.ownersWhere(func(*holder) bool { return true }) }

// Pending is all requests that wait, in pending order.
func (s *State) Pending() []Pending {
	all := make([]Pending, 0, s.pendingCount)
	for _, h := range s.table.holders {
		if h.pending != nil {
			all = append(all, h.pending.Pending)
		}
	}
	slices.SortFunc(all, func(a, b Pending) int { return a.Compare(&b) })
	return all
}

// Blockers is the owners for which the owner's pending request waits, in owner order; none if it has no such request, or if
// nothing but Withhold is in its way.
func (s *State) Blockers(o Owner) []Owner {
	h := s.table.holders[o]
	if h == nil || h.pending == nil {
		return nil
	}
	return s.blockersOf(h.pending, h.pending.queue)
}

// blockersOf is the owners for which a request waits in a queue.
func (s *State) blockersOf(r *request, at *queue) []Owner {
	blockers := s.table.blockers(r.holder, r.Request)
	if len(blockers) == 0 && at.behind != nil {
		return []Owner{at.behind.Owner}
	}
	return blockers
}

// BlockingLocks are the locks of an owner that block a request, in lock order. For a blocker it may be empty: then the
// request waits behind the blocker's own request.
func (s *State) BlockingLocks(req Request, o Owner) []Lock {
	var all []Lock
	for _, held := range s.table.Held(o) {
		for _, i := range req {
			if i.Mode > None && (i.Mode == Exclusive || held.Mode == Exclusive) && s.overlap(i.Lock, held.Lock) {
				all = append(all, held.Lock)
				break
			}
		}
	}
	return all
}

// overlap reports whether the locks are the same, or one implies the other.
func (s *State) overlap(a, b Lock) bool {
	return a == b || slices.Contains(s.table.implied(a), b) || slices.Contains(s.table.implied(b), a)
}

// TryUpdate grants a request at once or not at all (updateLocks of locks.md 1.6). A request whose items the owner
// already holds is granted and changes nothing. Errors are those of Table.Update, and ErrPending.
func (s *State) TryUpdate(now time.Time, o Owner, req Request) (Update, error) {
	return s.request(now, Pending{Owner: o, Request: req}, false)
}

// UpdateWaiting grants a request or makes it wait (updateLocksWaiting of locks.md 1.6). An invalid request does not
// wait. The State keeps the list of items, which must not be changed.
func (s *State) UpdateWaiting(now time.Time, p Pending) (Update, error) {
	return s.request(now, p, true)
}

// SafeUpdateWaiting is UpdateWaiting for clients that may ask twice (safeUpdateLocksWaiting of locks.md 1.6): a
// request that already waits, item by item, goes on as it was, with its old priority, and returns its current
// blockers.
func (s *State) SafeUpdateWaiting(now time.Time, p Pending) (Update, error) {
	if h := s.table.holders[p.Owner]; h != nil && h.pending != nil && slices.Equal(h.pending.Request, p.Request) {
		return Update{Blockers: s.Blockers(p.Owner)}, nil
	}
	return s.UpdateWaiting(now, p)
}

// Reprioritise gives the owner's pending request another priority. The request keeps its age and its blockers.
func (s *State) Reprioritise(o Owner, priority int) Update {
	h := s.table.holders[o]
	if h == nil || h.pending == nil || h.pending.Priority == priority {
		return Update{}
	}
	h.pending.Priority = priority
	h.pending.queue.heap.Fix(h.pending.index)
	return Update{Changed: []Owner{o}}
}

// request decides on a new request of an owner: it is granted as a whole at once, or waits if wait is set. It is refused if the owner has
// a pending one, or if the request is invalid whatever others hold (locks.md 1.5).
func (s *State) request(now time.Time, p Pending, wait bool) (Update, error) {
	h := s.table.holder(p.Owner)
	defer s.table.forget(h)
	if h.pending != nil {
		return Update{}, ErrPending
	}
	if h.satisfies(p.Request) {
		return Update{Granted: true}, nil
	}
	if err := s.table.check(h, p.Request); err != nil {
		return Update{}, err
	}
	// Requests that have become overdue are marked before this one is judged, which must not overtake them.
	s.beginPass(now)
	r := &request{Pending: p, holder: h, arrival: s.arrivalCount}
	var at *queue
	if wait {
		// A withheld request waits even if its locks are free.
		at = s.withheld.queueOf(p.Owner)
	}
	if at == nil {
		at = s.blockingQueue(r)
	}
	if at == nil {
		s.apply(h, p.Request)
		return s.finishPass(h, true), nil
	}
	// Taken before finishPass, which may change who blocks.
	blockers := s.blockersOf(r, at)
	if wait {
		s.choices.drop(p.Owner)
		s.enqueue(r, at)
		s.breakCycles(h)
	}
	update := s.finishPass(h, wait)
	if !wait || h.pending != nil {
		update.Granted, update.Blockers = false, blockers
	}
	return update, nil
}

// RemovePending ends the owner's wait, if it waits (removePending of locks.md 1.6). No other request is granted by
// this, unless the removed one was overdue.
func (s *State) RemovePending(now time.Time, o Owner) Update {
	return s.releaseWith(now, o, func(*holder) Request { return nil })
}

// Release ends the owner's wait and releases all its locks (releaseResources of locks.md 1.6).
func (s *State) Release(now time.Time, o Owner) Update {
	return s.ReleaseMatching(now, o, func(Lock) bool { return true })
}

// ReleaseMatching ends the owner's wait, for any lock, and releases its locks that match (freeLocksPredicate of
// locks.md 1.6).
func (s *State) ReleaseMatching(now time.Time, o Owner, match func(Lock) bool) Update {
	return s.releaseWith(now, o, func(h *holder) Request { return h.releases(match) })
}

// ReleaseLevel is ReleaseMatching for a level.
func (s *State) ReleaseLevel(now time.Time, o Owner, level Level) Update {
	return s.ReleaseMatching(now, o, func(l Lock) bool { return l.level == level })
}

// DowngradeMatching ends the owner's wait and makes its locks that match shared (downGradeLocksPredicate of locks.md
// 1.6).
func (s *State) DowngradeMatching(now time.Time, o Owner, match func(Lock) bool) Update {
	return s.releaseWith(now, o, func(h *holder) Request { return h.requests(match, Shared) })
}

// DowngradeLevel is DowngradeMatching for a level.
func (s *State) DowngradeLevel(now time.Time, o Owner, level Level) Update {
	return s.DowngradeMatching(now, o, func(l Lock) bool { return l.level == level })
}

// Intersect ends the owner's wait and releases all its locks except the listed ones (intersectLocks of locks.md 1.6).
func (s *State) Intersect(now time.Time, o Owner, keep []Lock) Update {
	listed := make(map[Lock]bool, len(keep))
	for _, l := range keep {
		listed[l] = true
	}
	return s.ReleaseMatching(now, o, func(l Lock) bool { return !listed[l] })
}

// releaseWith ends the owner's wait and applies a request that only releases or downgrades, and so cannot be refused.
func (s *State) releaseWith(now time.Time, o Owner, releases func(*holder) Request) Update {
	h := s.table.holder(o)
	defer s.table.forget(h)
	s.beginPass(now)
	changed := s.choices.drop(o)
	// The wait ends before locks are released: the freed ones must not be granted to this request.
	if h.pending != nil {
		s.withdraw(h.pending)
		changed = true
	}
	if req := releases(h); !h.satisfies(req) {
		s.apply(h, req)
		changed = true
	}
	return s.finishPass(h, changed)
}
