package sched

import (
	"lockstep/core/job"
	"lockstep/core/lock"
)

// look is all that a group's weight depends on, apart from its head's age: four
// bits for each level, which are the kind that is wanted and whether a name of it
// collides with the running side; and whether the big lock is wanted.
type look uint32

const bigLock look = 1 << 20

func lookOf(d *lock.Declaration) look {
	var l look
	for k, w := range d.Wants {
		l |= look(w.Known) << (4 * k)
	}
	if d.BGL {
		l |= bigLock
	}
	return l
}

// kind is what is wanted at the level with number k, from 0 for Instance.
func (l look) kind(k int) lock.Knowledge { return lock.Knowledge(l >> (4 * k) & 7) }

func (l look) overlaps(k int) bool { return l>>(4*k)&8 != 0 }

func overlap(k int) look { return 8 << (4 * k) }

// group is the candidates of one priority, declaration and set of limits.
//
// Invariants: it is known as long as it has candidates, and is in one lane then,
// which says its priority, limits and kinds; id is that of its root.
type group struct {
	id    job.ID
	hash  uint32
	root  int32 // the candidate that goes first
	links int32 // the first of the names
	lane  int32
	place int32 // in the lane's heap
}

// groups is the candidates.
type groups struct {
	arena[group]
	at      index
	lanes   lanes
	entries entries
	ids     index // of entries
	names   names
	limits  limits
	scratch []int32
}

func newGroups() *groups {
	g := &groups{limits: newLimits(), lanes: lanes{at: map[kin]int32{}}}
	g.names.at.hashOf = g.names.hashOf
	g.at.hashOf = func(at int32) uint32 { return g.all[at].hash }
	g.ids.hashOf = func(at int32) uint32 { return mix(0, uint64(g.entries.all[at].id)) }
	return g
}

// find is the group of that priority, declaration and set of limits, which is
// made if need be. The caller puts a candidate into it.
func (g *groups) find(priority, limits int32, d *lock.Declaration) int32 {
	l := lookOf(d)
	g.scratch = g.scratch[:0]
	for k, w := range d.Wants {
		if named(w.Known) {
			for _, text := range w.Names {
				g.scratch = append(g.scratch, g.names.refer(lock.Instance+lock.Level(k), text))
			}
		}
	}
	hash := mix(mix(uint32(limits), uint64(uint32(priority))), uint64(l))
	for _, name := range g.scratch {
		hash = mix(hash, uint64(name))
	}
	at := g.at.find(hash, func(at int32) bool { return g.all[at].hash == hash && g.is(at, priority, limits, l) })
	if at != 0 {
		for _, name := range g.scratch {
			g.names.drop(name)
		}
		return at
	}
	return g.make(group{hash: hash, id: nobody}, g.lane(kin{priority: priority, look: l, limits: limits}))
}

// is tells whether a group is the one sought; its names are in scratch.
func (g *groups) is(at, priority, limits int32, l look) bool {
	if lane := &g.lanes.all[g.all[at].lane]; lane.priority != priority || lane.limits != limits || lane.look != l {
		return false
	}
	rest := g.scratch
	for name := range g.names.of(g.all[at].links) {
		if len(rest) == 0 || rest[0] != name {
			return false
		}
		rest = rest[1:]
	}
	return len(rest) == 0
}

// make takes over the references of scratch.
func (g *groups) make(made group, lane int32) int32 {
	at := g.take()
	made.links = g.names.list(g.scratch)
	g.all[at] = made
	g.at.add(at)
	g.enter(at, lane)
	return at
}

// unmake forgets a group that has no candidates.
func (g *groups) unmake(at int32) {
	g.at.remove(at)
	g.exit(at)
	g.names.unlist(g.all[at].links)
	g.give(at)
}

// entry is a candidate's place, or 0.
func (g *groups) entry(id job.ID) int32 {
	return g.ids.find(mix(0, uint64(id)), func(at int32) bool { return g.entries.all[at].id == id })
}

func (g *groups) len() int { return g.ids.used }

// add makes a candidate without a group; join gives it one.
func (g *groups) add(id job.ID) int32 {
	at := g.entries.take()
	g.entries.all[at].id = id
	g.ids.add(at)
	return at
}

func (g *groups) join(entry, group int32) {
	g.entries.all[entry].group = group
	g.all[group].root = g.entries.meld(g.all[group].root, entry)
	g.head(group)
}

// part takes a candidate out of its group.
func (g *groups) part(entry int32) {
	at := g.entries.all[entry].group
	g.entries.all[entry].group = 0
	g.all[at].root = g.entries.without(g.all[at].root, entry)
	if g.all[at].root == 0 {
		g.unmake(at)
	} else {
		g.head(at)
	}
}

// remove forgets a candidate.
func (g *groups) remove(entry int32) {
	g.part(entry)
	g.ids.remove(entry)
	g.entries.give(entry)
}

// head brings a group up to date with its root.
func (g *groups) head(group int32) {
	if id := g.rootOf(group).id; g.all[group].id != id {
		g.all[group].id = id
		g.reorder(group)
	}
}

func (g *groups) rootOf(group int32) *entry { return &g.entries.all[g.all[group].root] }

// lower makes those before a job count as received no later than a tick. It looks
// at everyone, but is needed only when the clock was set back.
func (g *groups) lower(id job.ID, tick int64) {
	for i := range g.entries.all {
		if e := &g.entries.all[i]; e.group != 0 && e.id < id {
			e.birth = min(e.birth, tick)
		}
	}
}
