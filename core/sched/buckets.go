package sched

import (
	"math"

	"lockstep/core/heap"
	"lockstep/core/job"
	"lockstep/core/lock"
)

// bucket is a set of groups that differ only in names, and whose names conflicted in the same way with the running jobs
// when they were last compared.
//
// Every group of a bucket declares its blockingNames, so each blocking name that is taken counts for all of its groups.
// The order of the first group, weighed with its blockingNames only, is therefore a lower bound for the bucket, because
// arrival ticks never decrease with ids. A group starts in the bucket without blockingNames. A pick that finds a group
// first in its bucket, but behind this bound, moves it to the bucket where the bound is the group's exact weight.
//
// Invariants: a bucket exists as long as it has groups, and each of them declares the blockingNames. byID is the groups
// with the smallest id first; each group knows its index in it.
type bucket struct {
	bucketKey
	byID      heap.Heap[int32, *groups]
	liveIndex int32 // in buckets.live
}

// bucketKey is what the groups of a bucket have in common: priority, limits, kinds of demands, and the names at which they conflict with
// running jobs (see bucket).
type bucketKey struct {
	priority      int32
	mask          demandMask // without overlaps
	limits        int32
	blockingNames [lock.Levels]int32 // names, or 0; not in the order Expected
	class         durationClass      // in the order Expected
	continues     bool               // in the order Expected: the job has a process and waits between two opcodes
}

// buckets are all buckets of candidates. A pick goes through those in live, which have groups, so its cost depends on the number of
// distinct keys and not on that of the jobs.
type buckets struct {
	arena[bucket]
	byKey map[bucketKey]int32
	live  []int32
}

// noCandidate is the id of a group that has no candidate yet. It sorts last.
const noCandidate = job.ID(math.MaxInt64)

// bucketOf is the bucket of a group, valid until the next bucket is made.
func (g *groups) bucketOf(group int32) *bucket { return &g.buckets.items[g.items[group].bucket] }

// bucketFor finds or makes the bucket of a key. A new one holds references to its names and limits, and the caller puts a group into it.
func (g *groups) bucketFor(key bucketKey) int32 {
	if at, known := g.buckets.byKey[key]; known {
		return at
	}
	at := g.buckets.alloc()
	g.buckets.items[at] = bucket{bucketKey: key, byID: heap.Heap[int32, *groups]{Order: g}, liveIndex: int32(len(g.buckets.live))}
	g.buckets.live = append(g.buckets.live, at)
	g.buckets.byKey[key] = at
	for _, name := range key.blockingNames {
		if name != 0 {
			g.names.items[name].refs++
		}
	}
	g.limits.addRef(key.limits)
	return at
}

// removeBucket drops a bucket that has no groups, with its references to names and to a set of limits.
func (g *groups) removeBucket(at int32) {
	closed := &g.buckets.items[at]
	delete(g.buckets.byKey, closed.bucketKey)
	for _, name := range closed.blockingNames {
		if name != 0 {
			g.names.dropRef(name)
		}
	}
	g.limits.dropRef(closed.limits)
	live := g.buckets.live
	last := live[len(live)-1]
	live[closed.liveIndex], g.buckets.items[last].liveIndex = last, closed.liveIndex
	g.buckets.live = live[:len(live)-1]
	g.buckets.release(at)
}

// addToBucket puts a group into a bucket, at the place of its first candidate's id.
func (g *groups) addToBucket(group, bucket int32) {
	g.items[group].bucket = bucket
	g.buckets.items[bucket].byID.Push(group)
}

// removeFromBucket takes a group out of its bucket, and drops the bucket if that was its last group.
func (g *groups) removeFromBucket(group int32) {
	at := g.items[group].bucket
	b := &g.buckets.items[at]
	b.byID.Remove(int(g.items[group].heapIndex))
	if b.byID.Len() == 0 {
		g.removeBucket(at)
	}
}

// reorder restores the order of a bucket after the id of one of its groups has changed.
func (g *groups) reorder(group int32) {
	g.buckets.items[g.items[group].bucket].byID.Fix(int(g.items[group].heapIndex))
}

// Before is the order of the groups of a bucket.
func (g *groups) Before(a, b int32) bool { return g.items[a].id < g.items[b].id }

// Moved records the index of a group in its bucket.
func (g *groups) Moved(group int32, index int) { g.items[group].heapIndex = int32(index) }

// bucketMask is a bucket's mask with the conflicts that its blockingNames have now.
func (g *groups) bucketMask(b *bucket) demandMask {
	mask := b.mask
	for _, name := range b.blockingNames {
		if name != 0 {
			mask |= g.names.overlapBit(b.mask, name)
		}
	}
	return mask
}

// currentMask is a group's mask with the conflicts that its names have now.
func (g *groups) currentMask(group int32) demandMask {
	demand := g.buckets.items[g.items[group].bucket].mask
	mask := demand
	for name := range g.namesOf(group) {
		mask |= g.names.overlapBit(demand, name)
	}
	return mask
}

// currentBucket is the bucket for the names of a group that conflict now. At each level its blocking name is the first
// name that conflicts.
func (g *groups) currentBucket(group int32) int32 {
	key := g.buckets.items[g.items[group].bucket].bucketKey
	key.blockingNames = [lock.Levels]int32{}
	for name := range g.namesOf(group) {
		first := &key.blockingNames[levelNumber(g.names.items[name].level)]
		if *first == 0 && g.names.overlapBit(key.mask, name) != 0 {
			*first = name
		}
	}
	return g.bucketFor(key)
}
