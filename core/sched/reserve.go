package sched

import (
	"math"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// A reservation holds back jobs that want what its job wants in a conflicting way, and that are not expected to end
// before the promise: the time at which the job could start, as it was expected when the reservation was made. The
// promise is not changed later, so that wrong expectations cannot delay the job for ever: after the promise nothing
// passes.
//
//   - An urgent reservation belongs to the first candidate of a priority, if it is blocked. It concerns less urgent jobs.
//   - The aged reservation belongs to the oldest candidate of the most urgent priority that has one past ReserveAfter. It
//     concerns jobs that are as urgent or less. It is kept until the job starts or becomes ineligible, or until a more
//     urgent job is past ReserveAfter.
//
// Jobs that have a process ignore reservations: others may wait for their ends.

// reservation is one of them.
type reservation struct {
	id       job.ID
	priority int32
	promise  time.Time
	classes  map[durationClass]struct{} // of the places of groups that it holds back
}

// reservations are those in force.
//
// Invariant: view has the request of each job with a reservation.
type reservations struct {
	urgent []*reservation // by priority, at most one for each
	aged   *reservation
	view   *lock.View
	survey survey
}

func newReservations() reservations {
	return reservations{view: lock.NewView(lock.Implied), survey: survey{heads: map[int32]int32{}}}
}

// noPriority is greater than every priority.
const noPriority = math.MaxInt32 + 1

// survey is what the reservations depend on: the first groups without full limits.
type survey struct {
	valid bool            // nothing has started, and no limit has changed since
	heads map[int32]int32 // the first group of each priority
	last  int32           // the least urgent priority
	aged  int32           // the group of the job that is to have the aged reservation, or 0
}

// survey looks at the first group of each bucket.
func (s *State) survey() *survey {
	v, g := &s.expected.reserved.survey, s.groups
	if v.valid {
		return v
	}
	clear(v.heads)
	v.valid, v.last, v.aged = true, math.MinInt32, 0
	for _, at := range g.buckets.live {
		b := &g.buckets.items[at]
		if g.limits.full[b.limits] {
			continue
		}
		v.last = max(v.last, b.priority)
		first := b.byID.First()
		if head := v.heads[b.priority]; head == 0 || s.expected.places.orderOf(first).before(s.expected.places.orderOf(head)) {
			v.heads[b.priority] = first
		}
		if s.isAged(first) && (v.aged == 0 || s.agedBefore(first, v.aged)) {
			v.aged = first
		}
	}
	return v
}

// updateReservations makes the reservations of the priorities before bound, and the aged one. All candidates of these
// priorities are blocked. It reports whether groups that were held back must be examined again.
func (s *State) updateReservations(bound int64) (changed bool) {
	r, v := &s.expected.reserved, s.survey()
	kept := r.urgent[:0]
	for _, u := range r.urgent {
		head := v.heads[u.priority]
		if head != 0 && u.priority < v.last && (int64(u.priority) >= bound && s.mayReserve(u) || s.groups.items[head].id == u.id) {
			kept = append(kept, u)
		} else {
			changed = s.endReservation(u) || changed
		}
	}
	clear(r.urgent[len(kept):])
	r.urgent = kept
	for priority, head := range v.heads { // the order does not matter
		has := func(u *reservation) bool { return u.priority == priority }
		if int64(priority) < bound && priority < v.last && !slices.ContainsFunc(r.urgent, has) {
			r.urgent = append(r.urgent, s.reserve(head))
		}
	}
	return s.updateAged(v.aged) || changed
}

// updateAged keeps or replaces the aged reservation.
func (s *State) updateAged(candidate int32) (changed bool) {
	r, g := &s.expected.reserved, s.groups
	if r.aged != nil {
		if s.mayReserve(r.aged) && (candidate == 0 || g.bucketOf(candidate).priority >= r.aged.priority) {
			return false
		}
		changed = s.endReservation(r.aged)
		r.aged = nil
	}
	if candidate != 0 {
		r.aged = s.reserve(candidate)
	}
	return changed
}

// isAged reports whether the first job of a group is past ReserveAfter.
func (s *State) isAged(group int32) bool {
	return s.expected.now.UnixMicro()-s.groups.rootOf(group).receivedUs >= s.settings.ReserveAfter.Microseconds()
}

// agedBefore is the order in which groups get the aged reservation.
func (s *State) agedBefore(a, b int32) bool {
	g := s.groups
	if p, q := g.bucketOf(a).priority, g.bucketOf(b).priority; p != q {
		return p < q
	}
	return g.items[a].id < g.items[b].id
}

// mayReserve reports whether the job of a reservation is a candidate without full limits, and as urgent as before.
func (s *State) mayReserve(r *reservation) bool {
	at := s.groups.entryOf(r.id)
	if at == 0 {
		return false
	}
	b := s.groups.bucketOf(s.groups.entries.items[at].group)
	return b.priority == r.priority && !s.groups.limits.full[b.limits]
}

// started ends the reservations of a job that starts. Its next opcode may want other locks.
func (s *State) started(id job.ID) {
	r := &s.expected.reserved
	r.survey.valid = false
	if aged := r.aged; aged != nil && aged.id == id {
		s.endReservation(aged)
		r.aged = nil
	}
	r.urgent = slices.DeleteFunc(r.urgent, func(u *reservation) bool {
		if u.id == id {
			s.endReservation(u)
		}
		return u.id == id
	})
}

// reserve makes a reservation for the first job of a group.
func (s *State) reserve(group int32) *reservation {
	id := s.groups.items[group].id
	r := &reservation{id: id, priority: s.groups.bucketOf(group).priority, classes: map[durationClass]struct{}{}}
	request := s.requestOf(group)
	r.promise, _ = s.expected.startOf(id, request)
	s.expected.reserved.view.Set(jobOwnerKey(id), request, func(lock.Point) {})
	return r
}

// endReservation ends a reservation. It reports whether the reservation held groups back.
func (s *State) endReservation(r *reservation) bool {
	x := s.expected
	others := 0
	for _, o := range append(slices.Clone(x.reserved.urgent), x.reserved.aged) {
		if o != nil && o != r && o.id == r.id {
			others++
		}
	}
	if others == 0 {
		x.reserved.view.Set(jobOwnerKey(r.id), nil, func(lock.Point) {})
	}
	for class := range r.classes { // the order does not matter
		x.places.openKey(placeKey{reserver: r.id, class: class})
	}
	return len(r.classes) > 0
}

// startOf is the time before which the locks that block a request are not expected to be free; false, with the present time, if
// that is unknown. Durations are rounded down here, so that a job whose own one is rounded up and that ends before does not
// delay the request.
func (x *expected) startOf(id job.ID, request lock.Request) (time.Time, bool) {
	start := x.now
	for _, o := range x.view.Blockers(jobOwnerKey(id), request) {
		b, runs := x.began[o.Job]
		if o.Named || !runs {
			return x.now, false
		}
		end := b.at.Add(b.class.least())
		if !b.at.Add(b.class.duration()).After(x.now) {
			end = x.now.Add(x.now.Sub(b.at) / 2) // it takes longer than expected
		}
		if end.After(start) {
			start = end
		}
	}
	return start, true
}

// heldBack is the job whose reservation holds the first candidate of a group back, or 0.
func (s *State) heldBack(group int32, request lock.Request) job.ID {
	x := s.expected
	b := s.groups.bucketOf(group)
	if b.continues || len(x.reserved.urgent) == 0 && x.reserved.aged == nil {
		return 0
	}
	end := x.now.Add(b.class.duration())
	for _, o := range x.reserved.view.Blockers(jobOwnerKey(s.groups.items[group].id), request) {
		for _, r := range x.reserved.urgent {
			if r.id == o.Job && r.priority < b.priority && end.After(r.promise) {
				r.classes[b.class] = struct{}{}
				return r.id
			}
		}
		if r := x.reserved.aged; r != nil && r.id == o.Job && r.priority <= b.priority && end.After(r.promise) {
			r.classes[b.class] = struct{}{}
			return r.id
		}
	}
	return 0
}

// agedGroup is the group of the aged job if it is to be examined before all groups of the priorities from bound on; 0 if
// it is not. It is the first job of its group unless an older one has come back.
func (s *State) agedGroup(bound int64) int32 {
	r := s.expected.reserved.aged
	if r == nil || int64(r.priority) > bound {
		return 0
	}
	group := s.groups.entries.items[s.groups.entryOf(r.id)].group
	if s.groups.items[group].id != r.id || !s.expected.places.isOpen(group) {
		return 0
	}
	return group
}
