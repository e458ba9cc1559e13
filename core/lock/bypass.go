package lock

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Bounded bypass (design.md 7). A request that has been pending for longer than the limit is overdue: a later
// request that conflicts with it, new or pending, is not granted although the locks are free; it is kept behind it.
// Those whom an overdue request waits for, directly or through others, are never kept behind it, for it is they who
// must finish: an owner waits for its blockers, or for the request behind which it is kept.
//
// So an owner that held nothing and waited for nothing when a request became overdue cannot overtake it; and a circle
// of waiting owners, should there be one, is made of locks alone, as it would be without a limit.
//
// Age is that of the request: a client that gives up and asks again, as Ganeti's jobs do (locks.md 2.5), begins anew.
//
// Nobody needs a timer. To become overdue grants nothing and takes nothing; it only counts when somebody asks or frees,
// and is found out then, from the time that comes along.

// bypass is what the State knows of the age of requests.
//
// Invariant: young has every pending request that is not overdue, in order of arrival, and requests that are pending no
// more; with no limit it is empty. now never goes back.
type bypass struct {
	after time.Duration // zero: never
	now   time.Time
	young []*request
	kept  int // how many requests are kept behind another
}

func (b *bypass) arrived(r *request) {
	if b.after > 0 {
		b.young = append(b.young, r)
	}
}

// BypassAfter is the limit in force, zero if there is none.
func (s *State) BypassAfter() time.Duration { return s.bypass.after }

// SetBypassAfter changes the limit; zero or less is none. Requests that were kept behind another may get their locks.
func (s *State) SetBypassAfter(now time.Time, after time.Duration) Update {
	s.turn = turn{}
	s.bypass.after = max(after, 0)
	var all, kept []*request
	for _, h := range s.table.holders {
		if r := h.pending; r != nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.arrival, b.arrival) })
	s.bypass.young = nil
	for _, r := range all {
		if r.overdue {
			s.unclaim(r)
			r.overdue = false
			r.queue.heap.fix(r)
		}
		if r.queue.behind != nil {
			kept = append(kept, r)
		}
		s.bypass.arrived(r)
	}
	s.promote(now)
	for _, r := range kept {
		s.turn.ready.push(&candidate{first: r})
	}
	return s.finish(&holder{}, false)
}

// promote makes overdue what has become so. The order of a request changes by this, so no turn may have begun.
func (s *State) promote(now time.Time) {
	b := &s.bypass
	if now.After(b.now) {
		b.now = now
	}
	for len(b.young) > 0 {
		r := b.young[0]
		if r.holder.pending == r {
			if b.now.Sub(r.since) <= b.after {
				return
			}
			s.claim(r)
		}
		b.young[0] = nil
		b.young = b.young[1:]
	}
}

// claim makes a request overdue. Claims lie where its locks would, were it granted; there, the conflicts of others
// find them. Requests become overdue in order of arrival, so the lists stay sorted.
func (s *State) claim(r *request) {
	r.overdue = true
	r.queue.heap.fix(r)
	for _, i := range r.Request {
		if i.Mode == None {
			continue
		}
		s.table.places(i, func(at *spot) {
			if n := len(at.claims); n == 0 || at.claims[n-1] != r {
				at.claims = append(at.claims, r)
			}
		})
	}
}

// unclaim takes the claims away, if there are any.
func (s *State) unclaim(r *request) {
	if !r.overdue {
		return
	}
	for _, i := range r.Request {
		if i.Mode == None {
			continue
		}
		s.table.places(i, func(at *spot) {
			switch k := at.claimsUpTo(r.arrival - 1); {
			case k == len(at.claims) || at.claims[k] != r:
			case k == 0: // the usual one: the first to come is the first to go
				at.claims[0] = nil
				at.claims = at.claims[1:]
			default:
				at.claims = slices.Delete(at.claims, k, k+1)
			}
		})
		s.table.tidyAll(i.Lock)
	}
}

// claimsUpTo is how many claims arrived no later.
func (at *spot) claimsUpTo(arrival int) int {
	return sort.Search(len(at.claims), func(k int) bool { return at.claims[k].arrival > arrival })
}

// keeper is the earliest request that r would overtake and may not; nil if there is none. r is not blocked by locks.
func (s *State) keeper(r *request) *request {
	for last := -1; ; {
		p := s.earliestClaim(r, last)
		if p == nil || !s.waitsFor(p, r.holder) {
			return p
		}
		last = p.arrival
	}
}

// earliestClaim is the overdue request that conflicts with r and is the first to have arrived after the given one, but
// before r. (If r asks for what its owner holds already, whoever conflicts with that waits for the owner.)
func (s *State) earliestClaim(r *request, after int) *request {
	var first *request
	for _, i := range r.Request {
		s.table.conflicts(i, func(at *spot) bool {
			k := at.claimsUpTo(after)
			if k < len(at.claims) && at.claims[k].arrival < r.arrival && (first == nil || at.claims[k].arrival < first.arrival) {
				first = at.claims[k]
			}
			return true
		})
	}
	return first
}

// waitsFor tells whether a pending request waits for an owner, directly or through others.
func (s *State) waitsFor(r *request, goal *holder) bool {
	if len(goal.held) == 0 && (goal.pending == nil || len(goal.pending.held.heap.items) == 0) {
		return false // Nobody waits for somebody who has nothing.
	}
	found := false
	s.reach(r, func(h *holder) bool {
		found = h == goal
		return !found
	})
	return found
}

// reach visits all whom a request waits for, directly or through others, each once, until visit says false. Whether its
// own owner is among them is left open. It costs what there is to see: the locks that these requests name, and those who
// hold them.
func (s *State) reach(r *request, visit func(*holder) bool) {
	seen := map[*holder]bool{}
	left := map[*spot]bool{}
	todo := []*request{r}
	on := true
	meet := func(h *holder) {
		if !on || seen[h] {
			return
		}
		seen[h] = true
		on = visit(h)
		if h.pending != nil {
			todo = append(todo, h.pending)
		}
	}
	for len(todo) > 0 && on {
		r := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if r.queue.behind != nil {
			meet(r.queue.behind.holder)
		}
		for _, i := range r.Request {
			s.table.conflicts(i, func(at *spot) bool {
				if left[at] {
					return on
				}
				left[at] = true
				for h := range at.owners {
					if h != r.holder {
						meet(h)
					}
				}
				return on
			})
		}
	}
}

// breakCircles is called when an owner has begun to wait for locks. Whoever it holds up may by this wait, through it,
// for somebody who is kept behind them: who is kept so must be let go.
func (s *State) breakCircles(h *holder) {
	if s.bypass.kept == 0 || h.pending.queue.behind != nil || len(h.held) == 0 {
		return
	}
	keeps := map[*request]bool{} // whether who is kept behind it stays so
	s.reach(h.pending, func(other *holder) bool {
		r := other.pending
		if r == nil || r.queue.behind == nil {
			return true
		}
		p := r.queue.behind
		stays, known := keeps[p]
		if !known {
			stays = !s.waitsFor(p, h)
			keeps[p] = stays
		}
		if !stays {
			s.turn.ready.push(&candidate{first: r})
		}
		return true
	})
}
