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
//   - Aged reservations belong to jobs past ReserveAfter, and concern jobs that are as urgent or less (aged.go).
//
// Jobs that have a process ignore reservations before their promise, and urgent ones always: others may wait for their
// ends.

// reservation holds back other jobs for one job, as described above. The last fields are for aged reservations.
type reservation struct {
	id       job.ID
	priority int32
	promise  time.Time
	classes  map[durationClass]struct{} // of the places of groups that it holds back from locks

	second bool               // made for the oldest job without a full limit, beside that of the oldest job
	sets   map[int32]struct{} // the limits of groups that it holds back from a place in them
	own    int32              // the limits of its job when sets was last examined
}

func (r *reservation) isDue(now time.Time) bool { return !now.Before(r.promise) }

// reservations are the reservations that are in force.
//
// Invariant: wanted has the request of each job with a reservation.
type reservations struct {
	*situation
	urgent []*reservation // at most one for each priority
	aged   []*reservation // by priority; of one priority, in the order in which they were made
	wanted *lock.View
	seen   survey
}

func newReservations(s *situation) *reservations {
	return &reservations{situation: s, wanted: lock.NewView(lock.Implied), seen: survey{heads: map[int32]int32{}, aged: map[int32]agedHeads{}}}
}

// noPriority is greater than every priority.
const noPriority = math.MaxInt32 + 1

// survey is what the choice of reservations depends on, kept between picks, as looking at the first group of each bucket is what costs
// time.
type survey struct {
	valid bool                // nothing has started, and no limit has changed since
	heads map[int32]int32     // the first group of each priority without a full limit
	last  int32               // the least urgent priority of those
	aged  map[int32]agedHeads // by priority
	next  int64               // when the next of the first jobs is past ReserveAfter, in microseconds since 1970; math.MaxInt64: none will be
}

// survey returns the survey, made anew from the first group of each bucket if something has started or a limit has changed since.
func (x *reservations) survey() *survey {
	v, g := &x.seen, x.groups
	if v.valid {
		return v
	}
	clear(v.heads)
	clear(v.aged)
	v.valid, v.last, v.next = true, math.MinInt32, math.MaxInt64
	for _, at := range g.buckets.live {
		b := &g.buckets.items[at]
		full, first := g.limits.full[b.limits], b.byID.First()
		if due := x.agedAt(first); due > x.now.UnixMicro() {
			v.next = min(v.next, due)
		} else {
			v.aged[b.priority] = x.olderHeads(v.aged[b.priority], first, full)
		}
		if full {
			continue
		}
		v.last = max(v.last, b.priority)
		if head := v.heads[b.priority]; head == 0 || x.places.rankOf(first).before(x.places.rankOf(head)) {
			v.heads[b.priority] = first
		}
	}
	return v
}

// updateReservations makes the reservations of the priorities before bound, and the aged ones. All candidates of these
// priorities are blocked. It reports whether groups that were held back must be examined again.
func (x *reservations) updateReservations(bound int64) (changed bool) {
	v := x.survey()
	changed = x.keepReservations(&x.urgent, func(u *reservation) bool {
		head := v.heads[u.priority]
		return head != 0 && u.priority < v.last && (int64(u.priority) >= bound && x.mayReserve(u) || x.groups.items[head].id == u.id)
	})
	for priority, head := range v.heads { // the order does not matter
		has := func(u *reservation) bool { return u.priority == priority }
		if int64(priority) < bound && priority < v.last && !slices.ContainsFunc(x.urgent, has) {
			x.urgent = append(x.urgent, x.reserve(head))
		}
	}
	return x.updateAged(v) || changed
}

// mayReserve reports whether the job of an urgent reservation is a candidate without full limits, and as urgent as before.
func (x *reservations) mayReserve(r *reservation) bool {
	return x.isCandidate(r) && !x.groups.limits.full[x.groups.bucketOf(x.groupOf(r)).limits]
}

// isCandidate reports whether the job of a reservation is a candidate as urgent as before.
func (x *reservations) isCandidate(r *reservation) bool {
	return x.groups.entryOf(r.id) != 0 && x.groups.bucketOf(x.groupOf(r)).priority == r.priority
}

// groupOf is the group of a reservation's job, which is a candidate.
func (x *reservations) groupOf(r *reservation) int32 { return x.groups.groupOf(r.id) }

// started ends the reservations of a job that starts. Its next opcode may want other locks.
func (x *reservations) started(id job.ID) {
	x.seen.valid = false
	others := func(u *reservation) bool { return u.id != id }
	x.keepReservations(&x.urgent, others)
	x.keepReservations(&x.aged, others)
}

// keepReservations ends the reservations of a list except some. It reports whether they held groups back.
func (x *reservations) keepReservations(list *[]*reservation, keep func(*reservation) bool) (changed bool) {
	var ended []*reservation
	*list = slices.DeleteFunc(*list, func(r *reservation) bool {
		if keep(r) {
			return false
		}
		ended = append(ended, r)
		return true
	})
	for _, r := range ended {
		changed = x.endReservation(r) || changed
	}
	return changed
}

// reserve makes a reservation for the first job of a group. The promise counts locks only.
func (x *reservations) reserve(group int32) *reservation {
	id := x.groups.items[group].id
	r := &reservation{id: id, priority: x.groups.bucketOf(group).priority, classes: map[durationClass]struct{}{}}
	request := x.requestOf(group)
	r.promise = x.startOf(group, request)
	x.wanted.Set(jobOwnerKey(id), request, func(lock.Point) {})
	return r
}

// endReservation ends a reservation that is in no list any longer. It reports whether the reservation held groups back.
func (x *reservations) endReservation(r *reservation) bool {
	same := func(o *reservation) bool { return o.id == r.id }
	if !slices.ContainsFunc(x.urgent, same) && !slices.ContainsFunc(x.aged, same) {
		x.wanted.Set(jobOwnerKey(r.id), nil, func(lock.Point) {})
	}
	for class := range r.classes { // the order does not matter
		x.places.openKey(placeKey{reserver: r.id, class: class})
	}
	for set := range r.sets { // the order does not matter
		x.places.openKey(placeKey{reserver: r.id, limits: set})
	}
	return len(r.classes)+len(r.sets) > 0
}

// startOf is the time before which the locks that block the first job of a group are not expected to be free; the present
// time if that is unknown.
func (x *situation) startOf(group int32, request lock.Request) time.Time {
	start := x.now
	for _, o := range x.view.Blockers(jobOwnerKey(x.groups.items[group].id), request) {
		b, runs := x.began[o.Job]
		if o.Named || !runs {
			return x.now
		}
		if end := x.endOf(b, x.agedAt(group)); end.After(start) {
			start = end
		}
	}
	return start
}

// endOf is when a running job is expected to end, for a reservation of a job that is past ReserveAfter from that time on.
// Durations are rounded down here, so that a job whose own one is rounded up and that ends before does not delay the
// reservation. A job that takes longer than expected counts as two thirds done. If the other job had a reservation before a restart, its
// promise may have been made when this was not known: restarts must not move promises for ever.
func (x *situation) endOf(b begun, agedAt int64) time.Time {
	if b.at.Add(b.class.duration()).After(x.now) {
		return b.at.Add(b.class.least())
	}
	if agedAt <= x.first.UnixMicro() {
		return x.now
	}
	return x.now.Add(x.now.Sub(b.at) / 2)
}

// heldBack is the place of a group whose first candidate a reservation holds back; false if none does. The reservation remembers the
// limits or the duration class of the place.
func (x *reservations) heldBack(group int32, request lock.Request) (placeKey, bool) {
	b := x.groups.bucketOf(group)
	if len(x.urgent)+len(x.aged) == 0 {
		return placeKey{}, false
	}
	before := x.agedBefore(group)
	for _, a := range before {
		if x.keepsPlace(a, b.limits) {
			a.sets[b.limits] = struct{}{}
			return placeKey{reserver: a.id, limits: b.limits}, true
		}
	}
	end := x.now.Add(b.class.duration())
	for _, o := range x.wanted.Blockers(jobOwnerKey(x.groups.items[group].id), request) {
		for _, u := range x.urgent {
			if u.id == o.Job && !b.continues && u.priority < b.priority && end.After(u.promise) {
				u.classes[b.class] = struct{}{}
				return placeKey{reserver: u.id, class: b.class}, true
			}
		}
		for _, a := range before {
			if a.id == o.Job && (a.isDue(x.now) || !b.continues && end.After(a.promise)) {
				a.classes[b.class] = struct{}{}
				return placeKey{reserver: a.id, class: b.class}, true
			}
		}
	}
	return placeKey{}, false
}
