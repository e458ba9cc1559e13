package sched

import (
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Pick gives the free slots to the first jobs in the order, one after the other, and returns these. Each is compared
// with those picked before it. If no slot is free, Pick examines nothing.
func (s *State) Pick(now time.Time) []job.ID {
	if s.expected != nil {
		return s.pickExpected(now)
	}
	var picked []job.ID
	for s.stale && len(s.running) < s.settings.Slots {
		s.refresh(now)
		group := s.bestGroup()
		if group == 0 {
			s.stale = false
			break
		}
		picked = append(picked, s.pick(group))
	}
	return picked
}

// pick makes the first candidate of a group run.
func (s *State) pick(group int32) job.ID {
	g := s.groups
	id := g.items[group].id
	delete(s.yielded, id)
	occupied := g.limits.occupySet(g.buckets.items[g.items[group].bucket].limits)
	current := s.groupClaims(group)
	s.Withdraw(id)
	s.start(id, occupied, current)
	return id
}

// refresh updates the weights and the full limits for a pick.
func (s *State) refresh(now time.Time) {
	if s.expected != nil {
		s.openLimits()
	} else {
		s.groups.limits.updateFull()
	}
	s.weights.update(s.settings, &s.contention, now)
}

// pickSearch is the search for the group whose first candidate goes first.
type pickSearch struct {
	*State
	best      int32 // the best group so far, or 0
	bestOrder order // the order of its first candidate
}

// bestGroup is the group whose first candidate goes first, or 0. A group that is moved has been considered already, so
// it does not matter whether its new bucket is visited later.
func (s *State) bestGroup() int32 {
	c := pickSearch{State: s}
	buckets := &s.groups.buckets
	for i := 0; i < len(buckets.live); {
		at := buckets.live[i]
		if !s.groups.limits.full[buckets.items[at].limits] {
			c.visitBucket(at)
		}
		if i < len(buckets.live) && buckets.live[i] == at {
			i++ // otherwise the bucket was removed, and a different bucket has its index
		}
	}
	return c.best
}

// sweepThreshold is how many groups of a bucket may be moved one by one before the rest is swept.
const sweepThreshold = 64

// visitBucket considers a bucket's groups in order, until no later one can precede the best. It moves groups that are
// behind the bucket's bound.
func (c *pickSearch) visitBucket(at int32) {
	g := c.groups
	if c.best != 0 && g.buckets.items[at].priority > c.bestOrder.priority {
		return
	}
	mask := g.bucketMask(&g.buckets.items[at])
	for moved := 0; ; moved++ {
		b := &g.buckets.items[at]
		pending := b.byID.Len()
		if moved >= sweepThreshold && moved > pending/8 {
			c.sweepBucket(at, mask)
			return
		}
		head := g.rootOf(b.byID.First())
		bound := c.orderOf(head, mask)
		if c.best != 0 && !bound.before(c.bestOrder) {
			return
		}
		exact := c.orderOf(head, g.currentMask(head.group))
		c.consider(head.group, exact)
		if exact == bound {
			return
		}
		to := g.currentBucket(head.group)
		g.removeFromBucket(head.group)
		g.addToBucket(head.group, to)
		if pending == 1 {
			return // it was the last group
		}
	}
}

// sweepBucket considers all groups of a bucket, in any order. If most groups must be moved, this costs far less for
// each.
func (c *pickSearch) sweepBucket(at int32, bucketMask demandMask) {
	g := c.groups
	kept := g.buckets.items[at].byID // buckets move in memory when one is added
	kept.Filter(func(group int32) bool {
		mask := g.currentMask(group)
		c.consider(group, c.orderOf(g.rootOf(group), mask))
		if mask != bucketMask {
			g.addToBucket(group, g.currentBucket(group))
			return false
		}
		return true
	})
	g.buckets.items[at].byID = kept
	if kept.Len() == 0 {
		g.removeBucket(at)
	}
}

// consider makes a group the best one if it precedes the best so far.
func (c *pickSearch) consider(group int32, o order) {
	if c.best == 0 || o.before(c.bestOrder) {
		c.best, c.bestOrder = group, o
	}
}

// orderOf is the order of a candidate whose group has the given mask.
func (s *State) orderOf(e *entry, l demandMask) order {
	if s.expected != nil {
		return s.expected.places.orderIn(s.groups.bucketOf(e.group), e)
	}
	b := &s.groups.buckets.items[s.groups.items[e.group].bucket]
	return order{b.priority, s.weights.weight(l, e.arrivalTick), e.id}
}

// order is the key by which two jobs are compared.
type order struct {
	priority int32
	weight   int64
	id       job.ID
}

func (o order) before(p order) bool {
	if o.priority != p.priority {
		return o.priority < p.priority
	}
	if o.weight != p.weight {
		return o.weight < p.weight
	}
	return o.id < p.id
}

// weights maps masks and arrival ticks to weights at one moment.
//
// Weights are integers: ten times those of designs.md "Weight", times K, so that ages need no division. They are
// compared exactly, and are 0 from age K on.
type weights struct {
	predictive bool
	now, k     int64
	bigLock    int32
	base       int32
	levels     [lock.Levels][1 << 4]int32 // by the four bits of a mask
}

// update compares every possible demand with the contention.
func (w *weights) update(s Settings, l *contention, now time.Time) {
	w.predictive, w.now, w.k = s.Order == Weights, s.tickOf(now.UnixMicro()), int64(s.K)
	if !w.predictive {
		return
	}
	w.base = 10 * int32(s.Base)
	w.bigLock = w.base + valueOfBigLock
	for k := range w.levels {
		for bits := range w.levels[k] {
			w.levels[k][bits] = l.worstCase(k, demandMask(bits))
		}
	}
}

// worstCase is the largest value of a demand at a level, given as the four bits of a mask, over all claims there. A
// claim on the big lock blocks every demand, and counts as valueOfBigLock in all.
func (l *contention) worstCase(k int, mask demandMask) int32 {
	if l.bigLock > 0 {
		if lock.DemandLevel(k) == lock.Free {
			return 0
		}
		return valueMax
	}
	value := int32(0)
	kind := mask.kind(0)
	if int(kind) >= demandKinds {
		return value // bits that no mask has
	}
	for demand, n := range l.counts[k] {
		if n > 0 {
			value = max(value, conflicts[kind][demand].apart)
		}
	}
	if mask.overlaps(0) {
		value = valueMax
	}
	return value
}

// staticWeight is ten times the predictive value, which does not depend on the age.
func (w *weights) staticWeight(l demandMask) int64 {
	if l&bigLock != 0 {
		return int64(w.bigLock)
	}
	sum := w.base
	for k := range w.levels {
		sum += w.levels[k][l>>(4*k)&15]
	}
	return int64(sum)
}

// ticksLeft is how many ticks remain until age K.
func (w *weights) ticksLeft(arrivalTick int64) int64 {
	return w.k - min(max(w.now-arrivalTick, 0), w.k)
}

// weight is the weight of a mask and an arrival tick. It is 0 for all jobs if the order is the plain one.
func (w *weights) weight(l demandMask, arrivalTick int64) int64 {
	ticksLeft := w.ticksLeft(arrivalTick)
	if ticksLeft == 0 || !w.predictive {
		return 0
	}
	return w.staticWeight(l) * ticksLeft
}
