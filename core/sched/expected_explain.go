package sched

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

func (x *expected) AllLocks() []OwnerLocks {
	var all []OwnerLocks
	for _, o := range slices.SortedFunc(maps.Keys(x.owners), lock.Owner.Compare) {
		if p := x.owners[o]; len(p.held)+len(p.pending) > 0 {
			all = append(all, OwnerLocks{o, p.held, p.pending})
		}
	}
	return all
}

func (x *expected) Blockers(id job.ID, d lock.Declaration) []lock.Owner {
	return x.view.Blockers(jobOwnerKey(id), d.Request())
}

// Bounds of Explanation.BlockedBy and Blocker.Locks.
const (
	blockersMax     = 10
	blockerLocksMax = 10
)

func (x *expected) explain(to *Explanation, e *entry, now time.Time) {
	id, group := e.id, e.group
	x.now = now
	request := x.requestOf(group)
	to.BlockedBy, to.OtherBlockers = x.blockersOf(id, request)
	priority := x.groups.bucketOf(group).priority
	before := x.reserved.wanted.Blockers(jobOwnerKey(id), request)
	precedes := func(r *reservation) bool { return r.id != id && slices.Contains(before, jobOwnerKey(r.id)) }
	for _, r := range x.reserved.urgent {
		to.Reserves = to.Reserves || r.id == id
		if r.priority < priority && precedes(r) {
			to.ReservationsBefore++
		}
	}
	earlier := len(x.reserved.agedBefore(group))
	for i, r := range x.reserved.aged {
		if r.id == id {
			to.Reserves = true
		}
		if i < earlier && precedes(r) {
			to.ReservationsBefore++
		}
	}
	if x.groups.items[group].id == id {
		by, _ := x.reserved.heldBack(group, request)
		to.ReservedBy = by.reserver
	}
	for _, at := range x.groups.buckets.live {
		to.LessUrgent = to.LessUrgent || x.groups.buckets.items[at].priority < priority
	}
}

// blockersOf are the first owners that keep a job from a request, and the number of the others.
func (x *expected) blockersOf(id job.ID, request lock.Request) (first []Blocker, others int) {
	conflicts := x.view.Conflicts(jobOwnerKey(id), request)
	others = max(len(conflicts)-blockersMax, 0)
	for _, c := range conflicts[:len(conflicts)-others] {
		more := max(len(c.Locks)-blockerLocksMax, 0)
		first = append(first, Blocker{c.Owner, c.Locks[:len(c.Locks)-more], more, x.owners[c.Owner].holds(c.Locks[0])})
	}
	return first, others
}

func (x *expected) BlockedByLocks(lookMax int, now time.Time) []BlockedJob {
	x.refresh(now)
	var blocked []BlockedJob
	for _, id := range first(x.groups, x, lookMax) {
		group := x.groups.groupOf(id)
		wanted := x.requestOf(group)
		if by, _ := x.blockersOf(id, wanted); len(by) > 0 {
			blocked = append(blocked, BlockedJob{id, x.groups.bucketOf(group).priority, slices.Clone(wanted), by})
		}
	}
	return blocked
}

func (x *expected) MarkedByLocks() []BlockedJob {
	rankOf := func(id job.ID) rank { return presentRank(x.groups, x, x.groups.entryOf(id)) }
	ids := slices.SortedFunc(maps.Keys(x.marks.candidates), func(a, b job.ID) int {
		if rankOf(a).before(rankOf(b)) {
			return -1
		}
		return 1
	})
	var blocked []BlockedJob
	for _, id := range ids {
		group := x.groups.groupOf(id)
		wanted := slices.Clone(x.requestOf(group))
		conflicts := x.view.Conflicts(jobOwnerKey(id), wanted)
		wanted = slices.DeleteFunc(wanted, func(i lock.Item) bool {
			return !slices.ContainsFunc(conflicts, func(c lock.Conflict) bool { return slices.Contains(c.Locks, i.Lock) })
		})
		if len(wanted) > 0 {
			blocked = append(blocked, BlockedJob{ID: id, Priority: x.groups.bucketOf(group).priority, Wanted: wanted})
		}
	}
	return blocked
}
