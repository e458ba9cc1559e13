package sched

import (
	"math"
	"slices"

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
// Invariants: a bucket exists as long as it has groups, and each of them declares the blockingNames. heap is a binary
// heap of the groups by id; each group knows its index in it.
type bucket struct {
	bucketKey
	heap      []int32
	liveIndex int32 // in buckets.live
}

// bucketKey is what the groups of a bucket have in common.
type bucketKey struct {
	priority      int32
	mask          demandMask // without overlaps
	limits        int32
	blockingNames [lock.Levels]int32 // names, or 0
}

// buckets is all buckets. A pick goes through live.
type buckets struct {
	arena[bucket]
	byKey map[bucketKey]int32
	live  []int32
}

// noCandidate is the id of a group that has no candidate yet. It sorts last.
const noCandidate = job.ID(math.MaxInt64)

// bucketFor finds or makes the bucket of a key. The caller puts a group into a new one.
func (g *groups) bucketFor(key bucketKey) int32 {
	if at, known := g.buckets.byKey[key]; known {
		return at
	}
	at := g.buckets.alloc()
	g.buckets.items[at] = bucket{bucketKey: key, liveIndex: int32(len(g.buckets.live))}
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

// removeBucket drops a bucket that has no groups.
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

// addToBucket puts a group into a bucket.
func (g *groups) addToBucket(group, bucket int32) {
	b := &g.buckets.items[bucket]
	g.items[group].bucket, g.items[group].heapIndex = bucket, int32(len(b.heap))
	b.heap = append(b.heap, group)
	g.siftUp(b.heap, len(b.heap)-1)
}

// removeFromBucket takes a group out of its bucket, and drops the bucket if that was its last group.
func (g *groups) removeFromBucket(group int32) {
	at, i := g.items[group].bucket, g.items[group].heapIndex
	b := &g.buckets.items[at]
	last := b.heap[len(b.heap)-1]
	b.heap = b.heap[:len(b.heap)-1]
	switch {
	case len(b.heap) == 0:
		g.removeBucket(at)
		return
	case last != group:
		b.heap[i], g.items[last].heapIndex = last, i
		g.reorder(last)
	}
	if cap(b.heap) > 64 && len(b.heap) < cap(b.heap)/4 {
		b.heap = slices.Clone(b.heap) // a long backlog is over
	}
}

// reorder restores the heap order after the id of a group has changed.
func (g *groups) reorder(group int32) {
	heap := g.buckets.items[g.items[group].bucket].heap
	if i := int(g.items[group].heapIndex); !g.siftUp(heap, i) {
		g.siftDown(heap, i)
	}
}

func (g *groups) siftUp(heap []int32, i int) (risen bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if g.items[heap[parent]].id <= g.items[heap[i]].id {
			break
		}
		g.swap(heap, i, parent)
		i, risen = parent, true
	}
	return risen
}

func (g *groups) siftDown(heap []int32, i int) {
	for {
		least := 2*i + 1
		if least >= len(heap) {
			return
		}
		if right := least + 1; right < len(heap) && g.items[heap[right]].id < g.items[heap[least]].id {
			least = right
		}
		if g.items[heap[i]].id <= g.items[heap[least]].id {
			return
		}
		g.swap(heap, i, least)
		i = least
	}
}

func (g *groups) swap(heap []int32, i, j int) {
	heap[i], heap[j] = heap[j], heap[i]
	g.items[heap[i]].heapIndex, g.items[heap[j]].heapIndex = int32(i), int32(j)
}

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
	for name := range g.names.listed(g.items[group].names) {
		mask |= g.names.overlapBit(demand, name)
	}
	return mask
}

// currentBucket is the bucket for the names of a group that conflict now. At each level its blocking name is the first
// name that conflicts.
func (g *groups) currentBucket(group int32) int32 {
	key := g.buckets.items[g.items[group].bucket].bucketKey
	key.blockingNames = [lock.Levels]int32{}
	for name := range g.names.listed(g.items[group].names) {
		first := &key.blockingNames[g.names.items[name].level-lock.Instance]
		if *first == 0 && g.names.overlapBit(key.mask, name) != 0 {
			*first = name
		}
	}
	return g.bucketFor(key)
}
