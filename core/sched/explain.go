package sched

import (
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Explanation says why a candidate does not run yet.
type Explanation struct {
	// Running of Slots slots are taken: none is free if Running >= Slots.
	Running, Slots int
	// FullLimits are the limits that block the job, by key.
	FullLimits []FullLimit
	// Position is the rank among all candidates, including those that limits block, with the present weights: each pick
	// changes them. With PositionIsMinimum the rank may be greater.
	Position          int
	PositionIsMinimum bool

	// In the order Expected: BlockedBy are the first owners whose locks the job waits for, at most blockersMax, and
	// OtherBlockers is the number of the others. ReservedBy is the job whose reservation holds it back, or 0. Reserves: it
	// has a reservation.
	BlockedBy     []Blocker
	OtherBlockers int
	ReservedBy    job.ID
	Reserves      bool
	// ReservationsBefore is how many reservations other jobs have for locks that it wants. LessUrgent: there are more urgent
	// candidates, and nothing is promised to the job while such ones come.
	ReservationsBefore int
	LessUrgent         bool

	// AgeTicks is the age of the job that its weight is computed from. It may exceed the real age if the clock was set
	// back, and it may exceed K.
	AgeTicks int64

	// Predictive reports whether the order is predictive. If it is not, the following fields are zero.
	Predictive bool
	// BGL: the job wants the big lock, and has the greatest weight regardless of the running jobs.
	BGL bool
	// StaticWeight is the weight before ageing, and Weight after.
	StaticWeight, Weight float64
	// Causes explain StaticWeight beyond the base value: one for each level that
	// adds to it, in the order of levels. If another owner has or will have the big
	// lock, that is the only cause.
	Causes []Cause
}

// Blocker is an owner that has to leave locks before a job can start.
type Blocker struct {
	Owner lock.Owner
	// Locks are those of the job's locks that it keeps from the job, the first blockerLocksMax. OtherLocks is the number of
	// the others.
	Locks      []lock.Lock
	OtherLocks int
	// Holds: it has the first of the locks. Otherwise it was first to ask for the lock, or has just been started and will.
	Holds bool
}

// FullLimit is a limit that is reached, and how many running jobs carry it.
type FullLimit struct {
	Limit
	Running int
}

// Cause is the value that a level adds to the weight, and the owners that cause it.
type Cause struct {
	Level lock.Level
	Value float64
	// Demand is the demand of the job at the level. Owner is the first of the owners that add the most, and OtherOwners
	// is the number of the others.
	Demand      lock.DemandKind
	Owner       lock.Owner
	OtherOwners int
	// ClaimKind is how the owner relates to Claimed, and to Lock if Claimed has names.
	// If the owner wants nothing at the level, Claimed is lock.Nothing: the
	// job would add to the contention.
	ClaimKind ClaimKind
	Claimed   lock.DemandKind
	Lock      lock.Lock
}

// Explain says why a candidate waits; false if the job is not a candidate. It examines at most lookMax of the
// candidates that may precede it.
func (s *State) Explain(id job.ID, now time.Time, lookMax int) (Explanation, bool) {
	at := s.groups.entryOf(id)
	if at == 0 {
		return Explanation{}, false
	}
	s.refresh(now)
	e := &s.groups.entries.items[at]
	w := Explanation{
		Running: len(s.running), Slots: s.settings.Slots,
		FullLimits: s.groups.limits.fullOf(s.groups.bucketOf(e.group).limits),
		AgeTicks:   max(s.settings.tickOf(now.UnixMicro())-e.arrivalTick, 0),
	}
	w.Position, w.PositionIsMinimum = s.position(e, lookMax)
	s.explain(&w, e, now)
	return w, true
}

func (l *limits) fullOf(set int32) []FullLimit {
	if set == 0 {
		return nil
	}
	var full []FullLimit
	for _, g := range l.sets.items[set].bounds {
		if g.full() {
			full = append(full, FullLimit{Limit{g.key, g.n}, g.running})
		}
	}
	return full
}

// position is one more than the number of candidates that precede the given one. It stops after lookMax of them; then isMinimum is true.
func (s *State) position(of *entry, lookMax int) (position int, isMinimum bool) {
	a := positionSearch{State: s, own: s.rankOf(of, s.maskOf(of.group)), budget: lookMax, position: 1}
	for _, at := range s.groups.buckets.live {
		l := &s.groups.buckets.items[at]
		if l.priority <= a.own.priority {
			a.countBucket(l, s.groups.bucketMask(l))
		}
	}
	return a.position, a.budget < 0
}

// positionSearch counts the candidates that precede a given one. In the heaps of buckets and groups the last
// candidates are farthest from the root, so a branch ends at the first one that does not precede it.
type positionSearch struct {
	*State
	own      rank
	budget   int // how many candidates may still be examined; negative: there may be more
	position int
}

// countBucket counts the groups of a bucket with the given mask that go before the job, until the budget is used up.
func (a *positionSearch) countBucket(b *bucket, mask demandMask) {
	stack, groups := []int{0}, b.byID.Items()
	for len(stack) > 0 && a.budget >= 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if i >= len(groups) || !a.rankOf(a.groups.rootOf(groups[i]), mask).before(a.own) {
			continue
		}
		a.budget--
		a.countGroup(groups[i])
		stack = append(stack, 2*i+1, 2*i+2)
	}
}

// countGroup counts the candidates of a group that go before the job, from the first one down as long as they do; each costs one of the
// budget.
func (a *positionSearch) countGroup(group int32) {
	mask, e := a.maskOf(group), a.groups.entries.items
	stack := []int32{a.groups.items[group].root}
	for len(stack) > 0 && a.budget >= 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if at != 0 && a.rankOf(&e[at], mask).before(a.own) {
			a.budget--
			a.position++
			stack = append(stack, e[at].left, e[at].right)
		}
	}
}
