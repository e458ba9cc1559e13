package lock

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Bounded bypass (design.md "Bounded bypass"). A request that has been pending for longer than the limit is overdue: a later
// request that conflicts with it, new or pending, is not granted although the locks are free: it waits behind it.
// An owner for which an overdue request waits, directly or through others, never waits behind that request, because it
// must finish first: an owner waits for its blockers, or for the one request that is ahead of it.
//
// So an owner that held nothing and waited for nothing when a request became overdue cannot overtake it; and a cycle
// of waiting owners, should there be one, is made of locks alone, as it would be without a limit.
//
// The age is that of the request: if a client gives up and asks again, as Ganeti's jobs do (locks.md 2.5), it starts
// at 0.
//
// No timer is needed: becoming overdue changes no grant by itself. It is detected at the next request or release, from
// the time that is passed in.

// bypass is the part of the State that depends on the age of requests.
//
// Invariant: notOverdue has every pending request that is not overdue, in order of arrival, and may have requests that
// are no longer pending. Without a limit it is empty. now never decreases.
type bypass struct {
	limit       time.Duration // zero: a request is never overdue
	now         time.Time
	notOverdue  []*request
	behindCount int // how many requests wait behind another
}

func (b *bypass) track(r *request) {
	if b.limit > 0 {
		b.notOverdue = append(b.notOverdue, r)
	}
}

// BypassAfter is the limit in force, zero if there is none.
func (s *State) BypassAfter() time.Duration { return s.bypass.limit }

// SetBypassAfter changes the limit; zero or less is none. Requests stop being overdue or become overdue by the new limit, and those that
// waited behind another may get their locks.
func (s *State) SetBypassAfter(now time.Time, after time.Duration) Update {
	s.pass = grantPass{}
	s.bypass.limit = max(after, 0)
	var all, behind []*request
	for _, h := range s.table.holders {
		if r := h.pending; r != nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.arrival, b.arrival) })
	s.bypass.notOverdue = nil
	for _, r := range all {
		if r.overdue && !r.unpassable {
			s.unreserve(r)
			r.overdue = false
			r.queue.heap.Fix(r.index)
		}
		if r.queue.behind != nil {
			behind = append(behind, r)
		}
		if !r.queue.isWithheld() {
			s.bypass.track(r)
		}
	}
	s.markOverdue(now)
	for _, r := range behind {
		s.pass.ready.Push(grantCandidate{first: r})
	}
	return s.finishPass(&holder{}, false)
}

// markOverdue sets the time, and marks and reserves for the requests that have become overdue. This changes their order, so no pass may
// have begun.
func (s *State) markOverdue(now time.Time) {
	b := &s.bypass
	if now.After(b.now) {
		b.now = now
	}
	for len(b.notOverdue) > 0 {
		r := b.notOverdue[0]
		if r.holder.pending == r && !r.overdue {
			if b.now.Sub(r.since) <= b.limit {
				return
			}
			s.reserve(r)
		}
		b.notOverdue[0] = nil
		b.notOverdue = b.notOverdue[1:]
	}
}

// ForbidBypass makes the owner's pending request overdue now, whatever the limit is and becomes, unless it is withheld. This
// grants nothing.
func (s *State) ForbidBypass(o Owner) {
	h := s.table.holders[o]
	if h == nil || h.pending == nil || h.pending.queue.isWithheld() {
		return
	}
	h.pending.unpassable = true
	if !h.pending.overdue {
		s.reserve(h.pending)
	}
}

// reserve makes a request overdue. Its reservations are at the points where its locks would be if it were granted, so
// the conflicts of others find them. The lists are sorted by arrival.
func (s *State) reserve(r *request) {
	r.overdue = true
	r.queue.heap.Fix(r.index)
	for _, i := range r.Request {
		if i.Mode == None {
			continue
		}
		s.table.visitOwnerPoints(i, func(at *waitPoint) {
			if k := at.reservationsUpTo(r.arrival); k == 0 || at.reservations[k-1] != r { // usually the last one
				at.reservations = slices.Insert(at.reservations, k, r)
			}
		})
	}
}

// unreserve removes the reservations of a request, if it has any.
func (s *State) unreserve(r *request) {
	if !r.overdue {
		return
	}
	for _, i := range r.Request {
		if i.Mode == None {
			continue
		}
		s.table.visitOwnerPoints(i, func(at *waitPoint) {
			s.choices.leave(at)
			switch k := at.reservationsUpTo(r.arrival - 1); {
			case k == len(at.reservations) || at.reservations[k] != r:
			case k == 0: // usually the request that arrived first leaves first
				at.reservations[0] = nil
				at.reservations = at.reservations[1:]
			default:
				at.reservations = slices.Delete(at.reservations, k, k+1)
			}
		})
		s.table.dropUnusedAll(i.Lock)
	}
}

// reservationsUpTo is how many reservations arrived no later.
func (at *waitPoint) reservationsUpTo(arrival int) int {
	return sort.Search(len(at.reservations), func(k int) bool { return at.reservations[k].arrival > arrival })
}

// requestAhead is the earliest request that r would overtake and must not; nil if there is none. No lock blocks r.
func (s *State) requestAhead(r *request) *request {
	for last := -1; ; {
		p := s.earliestReservation(r, last)
		if p == nil || !s.waitsFor(p, r.holder) {
			return p
		}
		last = p.arrival
	}
}

// earliestReservation is the first overdue request that conflicts with r and arrived after the given one, but before
// r. (If r asks for a lock that its owner holds already, any conflicting request waits for the owner.)
func (s *State) earliestReservation(r *request, after int) *request {
	var first *request
	for _, i := range r.Request {
		s.table.visitConflicts(i, func(at *waitPoint) bool {
			k := at.reservationsUpTo(after)
			if k < len(at.reservations) && at.reservations[k].arrival < r.arrival && (first == nil || at.reservations[k].arrival < first.arrival) {
				first = at.reservations[k]
			}
			return true
		})
	}
	return first
}

// waitsFor reports whether a pending request waits for an owner, directly or through others.
func (s *State) waitsFor(r *request, target *holder) bool {
	if len(target.held) == 0 && (target.pending == nil || target.pending.followers.heap.Len() == 0) {
		return false // No request waits for an owner that has nothing.
	}
	found := false
	s.visitBlockers(r, func(h *holder) bool {
		found = h == target
		return !found
	})
	return found
}

// visitBlockers visits all owners for which a request waits, directly or through others, each once, until visit
// returns false. It may or may not visit the request's own owner. It costs the number of locks that these requests
// name, and of their owners.
func (s *State) visitBlockers(r *request, visit func(*holder) bool) {
	visited := map[*holder]bool{}
	seenPoints := map[*waitPoint]bool{}
	todo := []*request{r}
	more := true
	visitOnce := func(h *holder) {
		if !more || visited[h] {
			return
		}
		visited[h] = true
		more = visit(h)
		if h.pending != nil && !h.pending.queue.isWithheld() {
			todo = append(todo, h.pending)
		}
	}
	for len(todo) > 0 && more {
		r := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if r.queue.behind != nil {
			visitOnce(r.queue.behind.holder)
		}
		for _, i := range r.Request {
			s.table.visitConflicts(i, func(at *waitPoint) bool {
				if seenPoints[at] {
					return more
				}
				seenPoints[at] = true
				for h := range at.owners {
					if h != r.holder {
						visitOnce(h)
					}
				}
				return more
			})
		}
	}
}

// breakCycles is called when an owner has begun to wait for locks. Through this wait, an overdue request may now wait
// for an owner whose request waits behind it. Such a request must be tried again.
func (s *State) breakCycles(h *holder) {
	if s.bypass.behindCount == 0 || h.pending.queue.point == nil || len(h.held) == 0 { // behind a request, or withheld
		return
	}
	remains := map[*request]bool{} // whether requests stay behind this one
	s.visitBlockers(h.pending, func(other *holder) bool {
		r := other.pending
		if r == nil || r.queue.behind == nil {
			return true
		}
		p := r.queue.behind
		stillBehind, known := remains[p]
		if !known {
			stillBehind = !s.waitsFor(p, h)
			remains[p] = stillBehind
		}
		if !stillBehind {
			s.pass.ready.Push(grantCandidate{first: r})
		}
		return true
	})
}
