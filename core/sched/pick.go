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
		s.settle(now)
		group := s.first()
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
	id := g.all[group].id
	delete(s.held, id)
	carries := g.limits.occupySet(g.lanes.all[g.all[group].lane].limits)
	atHand := s.declaredBy(group)
	s.Withdraw(id)
	s.start(id, carries, atHand)
	return id
}

// settle brings up to date what a choice needs.
func (s *State) settle(now time.Time) {
	s.groups.limits.settle()
	s.weights.build(s.settings, &s.load, now)
}

// choice is the search for the group whose head goes first.
type choice struct {
	*State
	group int32 // the best so far, or 0
	least order // its head's
}

// first is the group whose head goes first, or 0. Groups that are moved have been
// looked at, so it does not matter whether their new lane is still to come.
func (s *State) first() int32 {
	c := choice{State: s}
	lanes := &s.groups.lanes
	for i := 0; i < len(lanes.live); {
		at := lanes.live[i]
		if !s.groups.limits.full[lanes.all[at].limits] {
			c.visit(at)
		}
		if i < len(lanes.live) && lanes.live[i] == at {
			i++ // else the lane is closed, and another one in its place
		}
	}
	return c.group
}

// sweepFrom is how many groups may be moved from a lane one after the other.
const sweepFrom = 64

// visit looks at a lane's groups in their order, until none that follows can be
// better than the best. Those that are behind the lane's bound are moved.
func (c *choice) visit(at int32) {
	g := c.groups
	if c.group != 0 && g.lanes.all[at].priority > c.least.priority {
		return
	}
	known := g.known(&g.lanes.all[at])
	for moved := 0; ; moved++ {
		heap := g.lanes.all[at].heap
		if moved >= sweepFrom && moved > len(heap)/8 {
			c.sweep(at, known)
			return
		}
		head := g.rootOf(heap[0])
		bound := c.orderOf(head, known)
		if c.group != 0 && !bound.before(c.least) {
			return
		}
		exact := c.orderOf(head, g.lookNow(head.group))
		c.offer(head.group, exact)
		if exact == bound {
			return
		}
		to := g.laneOf(head.group)
		g.exit(head.group)
		g.enter(head.group, to)
		if len(heap) == 1 {
			return // it was the last
		}
	}
}

// sweep looks at all groups of a lane, in any order: where most are to be moved,
// that costs far less for each.
func (c *choice) sweep(at int32, known look) {
	g := c.groups
	all := g.lanes.all[at].heap
	g.lanes.all[at].heap = all[:0] // they are put back no faster than read
	for _, group := range all {
		now := g.lookNow(group)
		c.offer(group, c.orderOf(g.rootOf(group), now))
		to := at
		if now != known {
			to = g.laneOf(group)
		}
		g.enter(group, to)
	}
	if len(g.lanes.all[at].heap) == 0 {
		g.close(at)
	}
}

// offer makes a group the best if it is.
func (c *choice) offer(group int32, o order) {
	if c.group == 0 || o.before(c.least) {
		c.group, c.least = group, o
	}
}

// orderOf is that of a candidate whose group has a look.
func (s *State) orderOf(e *entry, l look) order {
	lane := &s.groups.lanes.all[s.groups.all[e.group].lane]
	return order{lane.priority, s.weights.of(l, e.birth), e.id}
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

// build compares all that may be wanted with the running side.
func (w *weights) build(s Settings, l *load, now time.Time) {
	w.predictive, w.now, w.k = s.Predictive, s.tickOf(now.UnixMicro()), int64(s.K)
	if !w.predictive {
		return
	}
	w.base = 10 * int32(s.Base)
	w.bigLock = w.base + worst*int32(lock.Levels)
	for k := range w.levels {
		for bits := range w.levels[k] {
			w.levels[k][bits] = l.compare(k, look(bits))
		}
	}
}

// compare is the worst case of what is wanted at a level, by the four bits of a
// look, over all claims there. Who has the big lock, or will, stops everybody.
func (l *load) compare(k int, bits look) int32 {
	if l.bigLock > 0 {
		return worst
	}
	value := int32(0)
	kind := bits.kind(0)
	if int(kind) >= kinds {
		return value // bits that no look has
	}
	for known, n := range l.present[k] {
		if n > 0 {
			value = max(value, conflicts[kind][known].apart)
		}
	}
	if bits.overlaps(0) {
		value = worst
	}
	return value
}

// static is ten times the predictive value, which ages have no part in.
func (w *weights) static(l look) int64 {
	if l&bigLock != 0 {
		return int64(w.bigLock)
	}
	sum := w.base
	for k := range w.levels {
		sum += w.levels[k][l>>(4*k)&15]
	}
	return int64(sum)
}

// left is how many ticks are missing to age K.
func (w *weights) left(birth int64) int64 { return w.k - min(max(w.now-birth, 0), w.k) }

// of is the weight of a look and a birth. It is the same for all if the order is
// the plain one.
func (w *weights) of(l look, birth int64) int64 {
	left := w.left(birth)
	if left == 0 || !w.predictive {
		return 0
	}
	return w.static(l) * left
}
