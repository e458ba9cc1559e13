package sched

import (
	"math"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Aged reservations. Nobody starves: the oldest job past ReserveAfter of each priority has a reservation until it starts
// or becomes ineligible, also while a limit of it is full. At its promise it is due:
//
//   - It is the first of its priority to get a slot that is free, and starts although its locks are not free. It then waits in
//     its slot, where the lock manager bounds how long others may overtake it. So neither locks that are not declared nor
//     programs keep it from its locks. One job of a priority waits in its slot so at a time, and none while a more urgent one waits,
//     in its slot or with a reservation, that wants the same locks.
//   - Jobs as urgent as it or less, also those between two opcodes, leave it a place in each of its limits, and
//     do not take its locks. A running job that is about to begin its next opcode gives way to it.
//
// A backlog behind a full limit would keep the reservation from all other jobs for as long as it lasts. So while the
// limits of the oldest job are full, the oldest job of the priority without a full limit has a second reservation. Of two
// reservations of a priority the earlier one goes first.

// agedHeads are the oldest groups of a priority whose first jobs are past ReserveAfter: of all groups, and of those without a full
// limit; 0 if there is none.
type agedHeads struct{ oldest, startable int32 }

// agedAt is when the first job of a group is past ReserveAfter, in microseconds since 1970.
func (x *situation) agedAt(group int32) int64 {
	return x.groups.rootOf(group).receivedUs + x.settings.ReserveAfter.Microseconds()
}

// olderHeads are the heads with another group, if that is older.
func (x *reservations) olderHeads(h agedHeads, group int32, full bool) agedHeads {
	g := x.groups
	if h.oldest == 0 || g.items[group].id < g.items[h.oldest].id {
		h.oldest = group
	}
	if !full && (h.startable == 0 || g.items[group].id < g.items[h.startable].id) {
		h.startable = group
	}
	return h
}

// updateAged makes and ends the aged reservations. It reports whether groups that were held back must be examined again.
func (x *reservations) updateAged(v *survey) (changed bool) {
	changed = x.keepReservations(&x.aged, x.isCandidate)
	x.hasten()
	for priority, heads := range v.aged { // the order does not matter
		var first, second *reservation
		for _, a := range x.aged {
			switch {
			case a.priority != priority:
			case a.second:
				second = a
			default:
				first = a
			}
		}
		if first == nil {
			if second != nil && x.groupOf(second) == heads.oldest {
				first, second, second.second = second, nil, false
			} else {
				first = x.reserveAged(heads.oldest)
			}
		}
		if second == nil && heads.startable != 0 && heads.startable != x.groupOf(first) && x.isFull(first) {
			x.reserveAged(heads.startable).second = true
		}
	}
	return changed
}

// isFull reports whether a limit of a reservation's job is full.
func (x *reservations) isFull(r *reservation) bool {
	return x.groups.limits.full[x.groups.bucketOf(x.groupOf(r)).limits]
}

// reserveAged makes the reservation of the first job of a group, with its promise, and puts it behind those of its priority.
func (x *reservations) reserveAged(group int32) *reservation {
	a := x.reserve(group)
	a.sets = map[int32]struct{}{}
	a.promise = x.agedPromise(group)
	at, _ := slices.BinarySearchFunc(x.aged, int64(a.priority)+1, func(o *reservation, p int64) int { // behind those of its priority
		if int64(o.priority) < p {
			return -1
		}
		return 1
	})
	x.aged = slices.Insert(x.aged, at, a)
	return a
}

// agedPromise is when the first job of a group is expected to have its locks and a place in each of its limits.
func (x *reservations) agedPromise(group int32) time.Time {
	promise := x.startOf(group, x.requestOf(group))
	for _, b := range x.groups.limits.boundsOf(x.groups.bucketOf(group).limits) {
		if free := x.placeFree(b, x.agedAt(group)); free.After(promise) {
			promise = free
		}
	}
	return promise
}

// hasten moves promises to earlier times when what they waited for has ended early, and never to later ones. Otherwise each of a
// line of jobs waits for as long as the one before it was wrongly expected to execute.
func (x *reservations) hasten() {
	for _, a := range x.aged {
		if a.isDue(x.now) {
			continue
		}
		if promise := x.agedPromise(x.groupOf(a)); promise.Before(a.promise) {
			a.promise = promise
		}
	}
}

// placeFree is when a limit is expected to have a place. It is now if too few ends of jobs are known.
func (x *reservations) placeFree(b bound, agedAt int64) time.Time {
	excess := b.running - b.n // so many and one more must end
	if excess < 0 {
		return x.now
	}
	var ends []time.Time
	for id, occupied := range x.running { // the order does not matter
		if began, known := x.began[id]; known && slices.Contains(occupied, b.counter) {
			ends = append(ends, x.endOf(began, agedAt))
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	if excess >= len(ends) {
		return x.now
	}
	return ends[excess]
}

// agedBefore are the aged reservations that concern the first job of a group: those of priorities as urgent, and of
// earlier ones if it has a reservation itself.
func (x *reservations) agedBefore(group int32) []*reservation {
	priority := x.groups.bucketOf(group).priority
	for i, a := range x.aged {
		if a.priority > priority || x.groups.entryOf(a.id) != 0 && x.groupOf(a) == group {
			return x.aged[:i]
		}
	}
	return x.aged
}

// keepsPlace reports whether an aged reservation that is due needs the last place in one of the limits of a set.
func (x *reservations) keepsPlace(a *reservation, set int32) bool {
	if set == 0 || !a.isDue(x.now) || !x.isCandidate(a) {
		return false
	}
	a.own = x.groups.bucketOf(x.groupOf(a)).limits
	limits := &x.groups.limits
	return slices.ContainsFunc(limits.boundsOf(a.own), func(needed bound) bool {
		return needed.running >= needed.n-1 &&
			slices.ContainsFunc(limits.boundsOf(set), func(b bound) bool { return b.counter == needed.counter })
	})
}

// openPlaces opens the places of groups for which the limits of aged reservations have room again. It is called when limits or the
// jobs of reservations have changed.
func (x *reservations) openPlaces(limitsChanged bool) {
	for _, a := range x.aged {
		if !limitsChanged && (!x.isCandidate(a) || x.groups.bucketOf(x.groupOf(a)).limits == a.own) {
			continue
		}
		for set := range a.sets { // the order does not matter
			if !x.keepsPlace(a, set) {
				delete(a.sets, set)
				x.places.openKey(placeKey{reserver: a.id, limits: set})
			}
		}
	}
}

// agedGroup is a group with an aged reservation that is to be examined before all groups of the priorities from bound
// on; 0 if none is. Its first job is the one with the reservation, or an older one that wants the same and has come back. If it is due, it
// starts at once.
func (x *reservations) agedGroup(bound int64) (group int32, starts bool) {
	for _, a := range x.aged {
		if int64(a.priority) > bound {
			break
		}
		group := x.groupOf(a)
		if x.isFull(a) {
			continue
		}
		if x.startsBlocked(a, group) {
			return group, true
		}
		if x.places.isOpen(group) {
			return group, false
		}
	}
	return 0, false
}

// startsBlocked reports whether the job of an aged reservation starts now, its locks free or not.
func (x *reservations) startsBlocked(a *reservation, group int32) bool {
	if !a.isDue(x.now) || x.settings.StartUnblocked {
		return false
	}
	request := x.requestOf(group)
	if x.precededInSlot(a, request) || x.precededByUrgent(a, request) {
		return false
	}
	_, held := x.heldBack(group, request)
	return !held
}

// precededInSlot reports whether a job that had an aged reservation waits for its locks in its slot: one of the priority of
// another reservation, or a more urgent one that wants what that one wants.
func (x *reservations) precededInSlot(a *reservation, request lock.Request) bool {
	for id, b := range x.began { // the order does not matter
		owner := jobOwnerKey(id)
		if o := x.owners[owner]; !b.reserved || b.priority > a.priority || o == nil || !o.waits() {
			continue
		}
		if b.priority == a.priority || slices.Contains(x.view.Blockers(jobOwnerKey(a.id), request), owner) {
			return true
		}
	}
	return false
}

// precededByUrgent reports whether a more urgent job with a reservation wants what a due one wants. However short the due one is
// expected to be, it would not end before the promise of the other: it would wait in its slot, and then get the locks first.
func (x *reservations) precededByUrgent(a *reservation, request lock.Request) bool {
	for _, o := range x.wanted.Blockers(jobOwnerKey(a.id), request) {
		urgent := func(u *reservation) bool { return u.id == o.Job && u.priority < a.priority && x.isCandidate(u) }
		if slices.ContainsFunc(x.urgent, urgent) || slices.ContainsFunc(x.aged, urgent) {
			return true
		}
	}
	return false
}

// waits reports whether a running job has not got the locks of its opcode.
func (o *expectedOwner) waits() bool {
	return o.running && (len(o.pending) > 0 || !o.granted && len(o.declared) > 0)
}

func (x *expected) GivesSlotBack(c Candidate, now time.Time) bool {
	if b, known := x.began[c.ID]; known {
		b.reserved = false
		x.began[c.ID] = b
	}
	if len(x.yielded) >= x.settings.Slots {
		return false
	}
	if _, blocked := x.view.BlockedAt(jobOwnerKey(c.ID), c.Declared.Request()); blocked {
		return true
	}
	return x.givesWay(c, now)
}

// givesWay reports whether a running job gives way to a job that is due.
func (x *expected) givesWay(c Candidate, now time.Time) bool {
	x.observe(now, x.settings.LockBypass)
	x.openLimits()
	return x.reserved.needsOf(c, now)
}

// needsOf reports whether a job that is due needs what a running job has or wants. Limits are up to date.
func (x *reservations) needsOf(c Candidate, now time.Time) bool {
	x.seen.valid = false
	x.updateAged(x.survey())
	wanted := x.wanted.Blockers(jobOwnerKey(c.ID), c.Declared.Request())
	for _, a := range x.aged {
		if int64(a.priority) > int64(c.Priority) {
			break
		}
		if a.isDue(now) && (slices.Contains(wanted, jobOwnerKey(a.id)) || x.needsPlaceOf(a, c.ID)) {
			return true
		}
	}
	return false
}

// needsPlaceOf reports whether a job that is due needs the slot or a place in a limit that a running job has.
func (x *reservations) needsPlaceOf(a *reservation, id job.ID) bool {
	group := x.groupOf(a)
	full := slices.DeleteFunc(slices.Clone(x.groups.limits.boundsOf(x.groups.bucketOf(group).limits)), func(b bound) bool { return !b.full() })
	if len(full) > 0 {
		return slices.ContainsFunc(full, func(b bound) bool { return slices.Contains(x.running[id], b.counter) })
	}
	return len(x.running) == x.settings.Slots && x.startsBlocked(a, group)
}

func (x *expected) Wake() time.Time { return x.reserved.wake() }

// wake is the next time at which a reservation becomes due or is to be made; the zero time if there is none.
func (x *reservations) wake() time.Time {
	at := time.Time{}
	earlier := func(t time.Time) {
		if t.After(x.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, a := range x.aged {
		earlier(a.promise)
	}
	if v := &x.seen; v.next != math.MaxInt64 {
		earlier(time.UnixMicro(v.next))
	}
	return at
}

func (x *expected) HadReservation(id job.ID) bool {
	return x.began[id].reserved
}
