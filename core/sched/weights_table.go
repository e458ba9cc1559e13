package sched

import (
	"time"

	"lockstep/core/lock"
)

// weightTable maps masks and arrival ticks to weights at one moment.
//
// Weights are integers: ten times those of designs.md "Weight", times K, so that ages need no division. They are
// compared exactly, and are 0 from age K on.
type weightTable struct {
	predictive bool
	now, k     int64
	bigLock    int32
	base       int32
	levels     [lock.Levels][1 << 4]int32 // by the four bits of a mask
}

// update fills the table for a moment: for each level and each kind of demand at it, what the present owners of locks add to the weight.
// A weight is then a few look-ups.
func (w *weightTable) update(s Settings, l *contention, now time.Time) {
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

// worstCase is the largest value of a demand at a level, given as the four bits of a mask, over all claims there. A claim on the big lock
// blocks every demand but one for free locks, and counts as valueOfBigLock in all.
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
func (w *weightTable) staticWeight(l demandMask) int64 {
	if l&bigLock != 0 {
		return int64(w.bigLock)
	}
	sum := w.base
	for k := range w.levels {
		sum += w.levels[k][l>>(4*k)&15]
	}
	return int64(sum)
}

// ticksLeft returns how many ticks remain until a job that came at arrivalTick has the age K, at which its weight is 0; 0 to K.
func (w *weightTable) ticksLeft(arrivalTick int64) int64 {
	return w.k - min(max(w.now-arrivalTick, 0), w.k)
}

// weight is the weight of a mask and an arrival tick. It is 0 for all jobs if the order is the plain one.
func (w *weightTable) weight(l demandMask, arrivalTick int64) int64 {
	ticksLeft := w.ticksLeft(arrivalTick)
	if ticksLeft == 0 || !w.predictive {
		return 0
	}
	return w.staticWeight(l) * ticksLeft
}
