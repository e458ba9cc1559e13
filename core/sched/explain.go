package sched

import (
	"maps"
	"slices"
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
	b, mask := &s.groups.buckets.items[s.groups.items[e.group].bucket], s.groups.currentMask(e.group)
	w := Explanation{
		Running: len(s.running), Slots: s.settings.Slots,
		FullLimits: s.groups.limits.fullOf(b.limits),
		AgeTicks:   max(s.weights.now-e.arrivalTick, 0), Predictive: s.settings.Order == Weights,
	}
	w.Position, w.PositionIsMinimum = s.position(e, lookMax)
	if s.expected != nil {
		s.explainExpected(&w, id, e.group, now)
	}
	if !w.Predictive {
		return w, true
	}
	w.BGL = mask&bigLock != 0
	w.StaticWeight = float64(s.weights.staticWeight(mask)) / 10
	w.Weight = float64(s.weights.weight(mask, e.arrivalTick)) / float64(10*s.weights.k)
	if !w.BGL {
		w.Causes = s.causes(e.group, mask)
	}
	return w, true
}

// Bounds of Explanation.BlockedBy and Blocker.Locks.
const (
	blockersMax     = 10
	blockerLocksMax = 10
)

func (s *State) explainExpected(w *Explanation, id job.ID, group int32, now time.Time) {
	x := s.expected
	x.now = now
	request := s.requestOf(group)
	w.BlockedBy, w.OtherBlockers = x.blockersOf(id, request)
	priority := s.groups.bucketOf(group).priority
	before := x.reserved.view.Blockers(jobOwnerKey(id), request)
	precedes := func(r *reservation) bool { return r.id != id && slices.Contains(before, jobOwnerKey(r.id)) }
	for _, r := range x.reserved.urgent {
		w.Reserves = w.Reserves || r.id == id
		if r.priority < priority && precedes(r) {
			w.ReservationsBefore++
		}
	}
	earlier := len(s.agedBefore(group))
	for i, r := range x.reserved.aged {
		if r.id == id {
			w.Reserves = true
		}
		if i < earlier && precedes(r) {
			w.ReservationsBefore++
		}
	}
	if s.groups.items[group].id == id {
		by, _ := s.heldBack(group, request)
		w.ReservedBy = by.reserver
	}
	for _, at := range s.groups.buckets.live {
		w.LessUrgent = w.LessUrgent || s.groups.buckets.items[at].priority < priority
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

// BlockedJob is a candidate that cannot get its locks now, with its request and its blockers as in Explanation.
type BlockedJob struct {
	ID        job.ID
	Priority  int32
	Wanted    lock.Request
	BlockedBy []Blocker
}

// BlockedByLocks are those of the first lookMax candidates that cannot get their locks now, in the order Expected.
func (s *State) BlockedByLocks(lookMax int, now time.Time) []BlockedJob {
	if s.expected == nil {
		return nil
	}
	var blocked []BlockedJob
	for _, id := range s.First(lookMax, now) {
		group := s.groups.groupOf(id)
		wanted := s.requestOf(group)
		if by, _ := s.expected.blockersOf(id, wanted); len(by) > 0 {
			blocked = append(blocked, BlockedJob{id, s.groups.bucketOf(group).priority, slices.Clone(wanted), by})
		}
	}
	return blocked
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

// position is one more than the number of candidates that precede the given one. It stops after lookMax of them.
func (s *State) position(of *entry, lookMax int) (position int, isMinimum bool) {
	a := positionSearch{State: s, own: s.orderOf(of, s.groups.currentMask(of.group)), budget: lookMax, position: 1}
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
	own      order
	budget   int // how many candidates may still be examined; negative: there may be more
	position int
}

// countBucket counts in the groups of a bucket with the given mask.
func (a *positionSearch) countBucket(b *bucket, mask demandMask) {
	stack, groups := []int{0}, b.byID.Items()
	for len(stack) > 0 && a.budget >= 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if i >= len(groups) || !a.orderOf(a.groups.rootOf(groups[i]), mask).before(a.own) {
			continue
		}
		a.budget--
		a.countGroup(groups[i])
		stack = append(stack, 2*i+1, 2*i+2)
	}
}

// countGroup counts in one group.
func (a *positionSearch) countGroup(group int32) {
	mask, e := a.groups.currentMask(group), a.groups.entries.items
	stack := []int32{a.groups.items[group].root}
	for len(stack) > 0 && a.budget >= 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if at != 0 && a.orderOf(&e[at], mask).before(a.own) {
			a.budget--
			a.position++
			stack = append(stack, e[at].left, e[at].right)
		}
	}
}

// causes finds the owners behind the values of the levels.
func (s *State) causes(group int32, l demandMask) []Cause {
	owners := slices.SortedFunc(maps.Keys(s.owners), lock.Owner.Compare)
	if s.contention.bigLock > 0 {
		c := Cause{Level: lock.Cluster, Value: float64(valueOfBigLock) / 10, Claimed: lock.AllExclusive, Lock: lock.BGL}
		s.addOwners(&c, owners, func(claim claim) bool { return claim.level == lock.Cluster })
		return []Cause{c}
	}
	var causes []Cause
	for k := range lock.Levels {
		value := s.contention.worstCase(k, l>>(4*k)&15)
		if value == 0 {
			continue
		}
		c := Cause{Level: lock.DemandLevel(k), Value: float64(value) / 10, Demand: l.kind(k)}
		names := s.namesOf(group, c.Level)
		s.addOwners(&c, owners, func(claim claim) bool {
			if claim.level != c.Level {
				return false
			}
			cell := conflicts[c.Demand][claim.demand]
			return cell.apart == value || cell.overlap == value && slices.Contains(names, claim.name)
		})
		causes = append(causes, c)
	}
	return causes
}

// namesOf are the names that a group declares at a level.
func (s *State) namesOf(group int32, level lock.Level) []int32 {
	var names []int32
	for name := range s.groups.namesOf(group) {
		if s.groups.names.items[name].level == level {
			names = append(names, name)
		}
	}
	return names
}

// addOwners sets the owners of a cause: the owners with a claim that matches.
func (s *State) addOwners(c *Cause, owners []lock.Owner, matches func(claim) bool) {
	found := false
	for _, o := range owners {
		culprit, matched := s.owners[o].firstClaim(c.Level, matches)
		switch {
		case !matched:
		case found:
			c.OtherOwners++
		default:
			found = true
			c.Owner, c.ClaimKind, c.Claimed = o, culprit.kind, culprit.demand
			if culprit.name != 0 {
				c.Lock = lock.Member(culprit.level, s.groups.names.items[culprit.name].text)
			}
		}
	}
}

// firstClaim is the first claim that counts and matches. Claims on held and awaited locks come before declared ones. A
// running job without claims at the level has the claim that it wants nothing.
func (p *activeOwner) firstClaim(level lock.Level, matches func(claim) bool) (claim, bool) {
	claimed := false
	for c := range p.claims() {
		if matches(c) {
			return c, true
		}
		claimed = claimed || c.level == level
	}
	idle := claim{level: level, demand: lock.Nothing, kind: Expects}
	return idle, p.running && !claimed && level != lock.Cluster && matches(idle)
}
