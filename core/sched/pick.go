package sched

import (
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Pick gives free slots to the jobs that go first, one after the other, and
// returns these in that order. Each is compared with those picked before it. If
// no slot is free, nothing is looked at.
func (s *State) Pick(now time.Time) []job.ID {
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

// pick makes the head of a group run.
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

// refresh brings up to date what a choice needs.
func (s *State) refresh(now time.Time) {
	s.groups.limits.updateFull()
	s.weights.update(s.settings, &s.contention, now)
}

// pickSearch is the search for the group whose head goes first.
type pickSearch struct {
	*State
	best      int32 // the best so far, or 0
	bestOrder order // its head's
}

// bestGroup is the group whose head goes first, or 0. Groups that are moved have been
// looked at, so it does not matter whether their new lane is still to come.
func (s *State) bestGroup() int32 {
	c := pickSearch{State: s}
	buckets := &s.groups.buckets
	for i := 0; i < len(buckets.live); {
		at := buckets.live[i]
		if !s.groups.limits.full[buckets.items[at].limits] {
			c.visitBucket(at)
		}
		if i < len(buckets.live) && buckets.live[i] == at {
			i++ // else the lane is closed, and another one in its place
		}
	}
	return c.best
}

// sweepThreshold is how many groups may be moved from a lane one after the other.
const sweepThreshold = 64

// visitBucket looks at a lane's groups in their order, until none that follows can be
// better than the best. Those that are behind the lane's bound are moved.
func (c *pickSearch) visitBucket(at int32) {
	g := c.groups
	if c.best != 0 && g.buckets.items[at].priority > c.bestOrder.priority {
		return
	}
	mask := g.bucketMask(&g.buckets.items[at])
	for moved := 0; ; moved++ {
		heap := g.buckets.items[at].heap
		if moved >= sweepThreshold && moved > len(heap)/8 {
			c.sweepBucket(at, mask)
			return
		}
		head := g.rootOf(heap[0])
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
		if len(heap) == 1 {
			return // it was the last
		}
	}
}

// sweepBucket looks at all groups of a lane, in any order: where most are to be moved,
// that costs far less for each.
func (c *pickSearch) sweepBucket(at int32, bucketMask demandMask) {
	g := c.groups
	all := g.buckets.items[at].heap
	g.buckets.items[at].heap = all[:0] // they are put back no faster than read
	for _, group := range all {
		mask := g.currentMask(group)
		c.consider(group, c.orderOf(g.rootOf(group), mask))
		to := at
		if mask != bucketMask {
			to = g.currentBucket(group)
		}
		g.addToBucket(group, to)
	}
	if len(g.buckets.items[at].heap) == 0 {
		g.removeBucket(at)
	}
}

// consider makes a group the best if it is.
func (c *pickSearch) consider(group int32, o order) {
	if c.best == 0 || o.before(c.bestOrder) {
		c.best, c.bestOrder = group, o
	}
}

// orderOf is that of a candidate whose group has a look.
func (s *State) orderOf(e *entry, l demandMask) order {
	b := &s.groups.buckets.items[s.groups.items[e.group].bucket]
	return order{b.priority, s.weights.weight(l, e.arrivalTick), e.id}
}

// order is by what jobs go one before the other.
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

// weights is what looks and births weigh at one moment.
//
// Weights are whole: ten times those of designs.md "Weight", times K, so that ages
// need no division. They are compared exactly, and are 0 from age K on.
type weights struct {
	predictive bool
	now, k     int64
	bigLock    int32
	base       int32
	levels     [lock.Levels][1 << 4]int32 // by the four bits of a look
}

// update compares all that may be wanted with the running side.
func (w *weights) update(s Settings, l *contention, now time.Time) {
	w.predictive, w.now, w.k = s.Predictive, s.tickOf(now.UnixMicro()), int64(s.K)
	if !w.predictive {
		return
	}
	w.base = 10 * int32(s.Base)
	w.bigLock = w.base + valueMax*int32(lock.Levels)
	for k := range w.levels {
		for bits := range w.levels[k] {
			w.levels[k][bits] = l.worstCase(k, demandMask(bits))
		}
	}
}

// worstCase is the worst case of what is wanted at a level, by the four bits of a
// look, over all claims there. Who has the big lock, or will, stops everybody.
func (l *contention) worstCase(k int, mask demandMask) int32 {
	if l.bigLock > 0 {
		return valueMax
	}
	value := int32(0)
	kind := mask.kind(0)
	if int(kind) >= demandKinds {
		return value // bits that no look has
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

// staticWeight is ten times the predictive value, which ages have no part in.
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

// ticksLeft is how many ticks are missing to age K.
func (w *weights) ticksLeft(arrivalTick int64) int64 {
	return w.k - min(max(w.now-arrivalTick, 0), w.k)
}

// weight is the weight of a look and a birth. It is the same for all if the order is
// the plain one.
func (w *weights) weight(l demandMask, arrivalTick int64) int64 {
	ticksLeft := w.ticksLeft(arrivalTick)
	if ticksLeft == 0 || !w.predictive {
		return 0
	}
	return w.staticWeight(l) * ticksLeft
}
