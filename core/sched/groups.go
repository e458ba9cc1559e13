package sched

import (
	"iter"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// demandMask is the part of a group that its weight depends on, beside the age of its first candidate: four bits for
// each level, which are the kind of the demand and whether one of its names conflicts with a running job; and one bit
// for the big lock.
type demandMask uint32

const bigLock demandMask = 1 << (4 * lock.Levels)

func maskOf(d *lock.Declaration) demandMask {
	var l demandMask
	for k, w := range d.Demands {
		l |= demandMask(w.Kind) << (4 * k)
	}
	if d.BGL {
		l |= bigLock
	}
	return l
}

// kind is the demand at level k, counted from 0 for Instance.
func (l demandMask) kind(k int) lock.DemandKind { return lock.DemandKind(l >> (4 * k) & 7) }

func (l demandMask) overlaps(k int) bool { return l>>(4*k)&8 != 0 }

func overlapBit(k int) demandMask { return 8 << (4 * k) }

// group is the set of the candidates with one priority, declaration and set of limits.
//
// Invariants: a group exists as long as it has candidates. It is in one bucket, which has its priority, limits and
// kinds. id is the id of its root.
type group struct {
	id        job.ID
	hash      uint32
	root      int32 // the candidate that goes first
	names     int32 // the first link of its instances
	shape     int32 // has the other names
	bucket    int32
	heapIndex int32 // in the bucket's heap
	// In the order Expected: the place, or 0, and the index in its heap.
	place, placeIndex int32
}

// groups holds all candidates for a run slot: those that want the same locks under the same limits are a group, and groups that differ
// only in names are in a bucket.
type groups struct {
	arena[group]
	byHash  hashIndex
	buckets buckets
	entries entries
	byID    hashIndex // of entries
	names   names
	shapes  shapes
	limits  limits
	watcher groupWatcher
	scratch []int32
}

// groupWatcher is told about groups. It is places, in the order Expected.
type groupWatcher interface {
	// headChanged: a group has another first candidate, or its first candidate another arrival tick. The group may be new.
	headChanged(group int32)
	// take: a group has no candidates any longer.
	take(group int32)
	// rebuild: arrival ticks of many candidates have changed.
	rebuild()
}

// noPlaces is the groupWatcher of the orders that compare all groups at each pick, and so need no places.
type noPlaces struct{}

func (noPlaces) headChanged(int32) {}
func (noPlaces) take(int32)        {}
func (noPlaces) rebuild()          {}

func newGroups() *groups {
	g := &groups{limits: newLimits(), watcher: noPlaces{}, buckets: buckets{byKey: map[bucketKey]int32{}}}
	g.names.byHash.hashOf = g.names.hashOf
	g.shapes.byHash.hashOf = func(at int32) uint32 { return g.shapes.items[at].hash }
	g.byHash.hashOf = func(at int32) uint32 { return g.items[at].hash }
	g.byID.hashOf = func(at int32) uint32 { return mix(0, uint64(g.entries.items[at].id)) }
	return g
}

// findOrAdd is the group of that declaration in a bucket with that priority, set of limits, class and so on. It adds the
// group if there is none; the caller then puts a candidate into it.
func (g *groups) findOrAdd(key bucketKey, d *lock.Declaration) int32 {
	key.mask = maskOf(d)
	g.scratch = g.scratch[:0]
	instances := 0
	for k, w := range d.Demands {
		if hasNames(w.Kind) {
			for _, text := range w.Names {
				g.scratch = append(g.scratch, g.names.addRef(lock.DemandLevel(k), text))
			}
		}
		if lock.DemandLevel(k) == lock.Instance {
			instances = len(g.scratch)
		}
	}
	shape := g.shapeOf(key.mask, g.scratch[instances:])
	g.scratch = g.scratch[:instances]
	hash := mix(mix(uint32(key.limits)+uint32(key.class)<<16, uint64(uint32(key.priority))), uint64(shape))
	for _, name := range g.scratch {
		hash = mix(hash, uint64(name))
	}
	at := g.byHash.find(hash, func(at int32) bool { return g.items[at].hash == hash && g.matches(at, &key, shape) })
	if at != 0 {
		for _, name := range g.scratch {
			g.names.dropRef(name)
		}
		g.leaveShape(shape)
		return at
	}
	return g.addGroup(group{hash: hash, id: noCandidate, shape: shape}, g.bucketFor(key))
}

// matches tells whether a group is the wanted one, whose instances are in scratch.
func (g *groups) matches(at int32, key *bucketKey, shape int32) bool {
	if b := g.bucketOf(at); b.priority != key.priority || b.limits != key.limits || b.class != key.class || b.continues != key.continues {
		return false
	}
	return g.items[at].shape == shape && g.names.listEquals(g.items[at].names, g.scratch)
}

// namesOf are the names that a group declares, in the order of levels.
func (g *groups) namesOf(group int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for name := range g.names.listed(g.items[group].names) {
			if !yield(name) {
				return
			}
		}
		g.shapes.namesOf(g.items[group].shape, &g.names, yield)
	}
}

// addGroup makes a group, which owns the references in scratch from then on.
func (g *groups) addGroup(new group, bucket int32) int32 {
	at := g.alloc()
	new.names = g.names.newList(g.scratch)
	g.items[at] = new
	g.byHash.add(at)
	g.addToBucket(at, bucket)
	return at
}

// removeGroup drops a group whose last candidate has left, with all that refers to it: place, hash, bucket, names and shape.
func (g *groups) removeGroup(at int32) {
	g.watcher.take(at)
	g.byHash.remove(at)
	g.removeFromBucket(at)
	g.names.freeList(g.items[at].names)
	g.leaveShape(g.items[at].shape)
	g.release(at)
}

// entryOf is the index of a candidate, or 0.
func (g *groups) entryOf(id job.ID) int32 {
	return g.byID.find(mix(0, uint64(id)), func(at int32) bool { return g.entries.items[at].id == id })
}

// groupOf is the group of a candidate.
func (g *groups) groupOf(id job.ID) int32 { return g.entries.items[g.entryOf(id)].group }

func (g *groups) len() int { return g.byID.used }

// add makes a candidate without a group; joinGroup gives it one.
func (g *groups) add(id job.ID) int32 {
	at := g.entries.alloc()
	g.entries.items[at].id = id
	g.byID.add(at)
	return at
}

func (g *groups) joinGroup(entry, group int32) {
	g.entries.items[entry].group = group
	g.items[group].root = g.entries.meld(g.items[group].root, entry)
	g.updateHead(group)
}

// leaveGroup takes a candidate out of its group. The group goes with its last one, else it gets its next candidate as the first.
func (g *groups) leaveGroup(entry int32) {
	at := g.entries.items[entry].group
	g.entries.items[entry].group = 0
	rest := g.entries.remove(g.items[at].root, entry)
	if rest == 0 {
		g.removeGroup(at)
	} else {
		g.items[at].root = rest
		g.updateHead(at)
	}
}

// remove makes a job no candidate any longer: the group, the index by id and the entry forget it.
func (g *groups) remove(entry int32) {
	g.leaveGroup(entry)
	g.byID.remove(entry)
	g.entries.release(entry)
}

// updateHead brings a group's id and place in its bucket up to date with its root.
func (g *groups) updateHead(group int32) {
	if id := g.rootOf(group).id; g.items[group].id != id {
		g.items[group].id = id
		g.reorder(group)
		g.watcher.headChanged(group)
	}
}

func (g *groups) rootOf(group int32) *entry { return &g.entries.items[g.items[group].root] }

// lowerArrivals lowers the arrival ticks of the jobs before the given one to at most a tick. It visits every candidate,
// but is needed only when the clock was set back.
func (g *groups) lowerArrivals(id job.ID, tick int64) {
	for i := range g.entries.items {
		if e := &g.entries.items[i]; e.group != 0 && e.id < id {
			e.arrivalTick = min(e.arrivalTick, tick)
		}
	}
}
