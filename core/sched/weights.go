package sched

import (
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// weights is the orders Weights and Plain: all candidates are compared at each pick, by their weights. In the plain
// order these are 0.
type weights struct {
	*jobs
	noWaits
	owners     map[lock.Owner]*activeOwner
	contention contention
	table      weightTable
}

func newWeights(j *jobs) *weights { return &weights{jobs: j, owners: map[lock.Owner]*activeOwner{}} }

// settingsChanged does nothing: each pick computes the weights from the settings.
func (w *weights) settingsChanged(Settings) {}

func (w *weights) refresh(now time.Time) {
	w.groups.limits.updateFull()
	w.table.update(w.settings, &w.contention, now)
}

func (w *weights) rankOf(e *entry, mask demandMask) rank {
	return rank{w.groups.bucketOf(e.group).priority, w.table.weight(mask, e.arrivalTick), e.id}
}

func (w *weights) classOf(job.ID, time.Duration) (durationClass, bool) { return 0, false }

func (w *weights) maskOf(group int32) demandMask { return w.groups.currentMask(group) }

func (w *weights) Pick(now time.Time) []job.ID {
	var picked []job.ID
	for w.stale && len(w.running) < w.settings.Slots {
		w.refresh(now)
		group := w.bestGroup()
		if group == 0 {
			w.stale = false
			break
		}
		picked = append(picked, w.pick(group))
	}
	return picked
}

// pick starts the first candidate of a group: from now on it is no candidate, counts in its limits, and contends with others by what it
// declares.
func (w *weights) pick(group int32) job.ID {
	g := w.groups
	id := g.items[group].id
	delete(w.yielded, id)
	occupied := g.limits.occupySet(g.buckets.items[g.items[group].bucket].limits)
	current := w.groupClaims(group)
	w.Withdraw(id)
	w.running[id] = occupied
	w.begin(id, current)
	return id
}

// pickSearch is the search for the group whose first candidate goes first.
type pickSearch struct {
	*weights
	best     int32 // the best group so far, or 0
	bestRank rank  // of its first candidate
}

// bestGroup is the group whose first candidate goes first, or 0. A group that is moved has been considered already, so
// it does not matter whether its new bucket is visited later.
func (w *weights) bestGroup() int32 {
	c := pickSearch{weights: w}
	buckets := &w.groups.buckets
	for i := 0; i < len(buckets.live); {
		at := buckets.live[i]
		if !w.groups.limits.full[buckets.items[at].limits] {
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
	if c.best != 0 && g.buckets.items[at].priority > c.bestRank.priority {
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
		bound := c.rankOf(head, mask)
		if c.best != 0 && !bound.before(c.bestRank) {
			return
		}
		exact := c.rankOf(head, g.currentMask(head.group))
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
		c.consider(group, c.rankOf(g.rootOf(group), mask))
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
func (c *pickSearch) consider(group int32, r rank) {
	if c.best == 0 || r.before(c.bestRank) {
		c.best, c.bestRank = group, r
	}
}
