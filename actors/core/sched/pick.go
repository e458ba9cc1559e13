package sched

import (
	"time"

	"lockstep/actors/core/job"
	"lockstep/actors/core/lock"
)

// Pick gives free slots to the jobs that go first, one after the other, and
// returns these in that order. Each is compared with those picked before it. If
// no slot is free, nothing is looked at.
func (s *State) Pick(now time.Time) []job.ID {
	var picked []job.ID
	for s.stale && len(s.running) < s.settings.Slots {
		s.settle(now)
		at := s.first()
		if at < 0 {
			s.stale = false
			break
		}
		picked = append(picked, s.pick(at))
	}
	return picked
}

// pick makes the head of a lane run.
func (s *State) pick(at int) job.ID {
	lane := s.groups.lanes[at]
	delete(s.held, lane.id)
	carries := s.groups.limits.occupySet(lane.limits)
	atHand := s.declaredBy(lane.group)
	s.Withdraw(lane.id)
	s.start(lane.id, carries, atHand)
	return lane.id
}

// settle brings up to date what a choice needs.
func (s *State) settle(now time.Time) {
	s.groups.settle()
	s.weights.build(s.settings, &s.load, now)
}

// first is the lane whose head goes first, or -1.
func (s *State) first() int {
	w, full := &s.weights, s.groups.limits.full
	first := -1
	var least order
	for i := range s.groups.lanes {
		l := &s.groups.lanes[i]
		if first >= 0 && l.priority > least.priority || full[l.limits] {
			continue
		}
		if o := (order{l.priority, w.of(l.look, l.birth), l.id}); first < 0 || o.before(least) {
			first, least = i, o
		}
	}
	return first
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
// Weights are whole: ten times the design's values, and times K, so that ages
// need no division. They are compared exactly, and are 0 from age K on.
type weights struct {
	predictive bool
	now, k     int64
	bigLock    int32
	// low is for the bits of the first two levels and the base, high for those of
	// the others.
	low  [1 << 8]int32
	high [1 << 12]int32
}

// build compares all that may be wanted with the running side.
func (w *weights) build(s Settings, l *load, now time.Time) {
	w.predictive, w.now, w.k = s.Predictive, s.tickOf(now.UnixMicro()), int64(s.K)
	if !w.predictive {
		return
	}
	base := 10 * int32(s.Base)
	w.bigLock = base + worst*int32(lock.Levels)
	var at [lock.Levels][1 << 4]int32
	for k := range at {
		for bits := range at[k] {
			at[k][bits] = l.compare(k, look(bits))
		}
	}
	for i := range w.low {
		w.low[i] = base + at[0][i&15] + at[1][i>>4]
	}
	for i := range w.high {
		w.high[i] = at[2][i&15] + at[3][i>>4&15] + at[4][i>>8]
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
	return int64(w.low[l&0xff] + w.high[l>>8&0xfff])
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
