package sched

import (
	"lockstep/actors/core/job"
	"lockstep/actors/core/lock"
)

// look is all that a group's weight depends on, apart from its head's age: four
// bits for each level, which are the kind that is wanted and whether a name of it
// collides with the running side; and whether the big lock is wanted.
type look uint32

const (
	kindBits look = 0x77777
	bigLock  look = 1 << 20
)

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
// Invariant: it is known as long as it has candidates, and has one lane then.
type group struct {
	hash     uint32
	lane     int32              // place in groups.lanes
	root     int32              // the candidate that goes first
	links    int32              // the first of the names
	overlaps [lock.Levels]int32 // how many names collide with the running side
}

// lane is what a choice looks at. Lanes are dense: what a choice costs follows
// the groups that there are.
//
// Invariant: id and birth are those of the group's root; the overlaps of look are
// those of which the group counts any.
type lane struct {
	id       job.ID
	birth    int64
	priority int32
	look     look
	limits   int32
	group    int32
}

// groups is the candidates.
type groups struct {
	arena[group]
	at      index
	lanes   []lane
	entries entries
	ids     index // of entries
	names   names
	limits  limits
	scratch []int32
}

func newGroups() *groups {
	g := &groups{limits: newLimits()}
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
	return g.make(hash, lane{priority: priority, look: l, limits: limits})
}

// is tells whether a group is the one sought; its names are in scratch.
func (g *groups) is(at, priority, limits int32, l look) bool {
	lane := &g.lanes[g.all[at].lane]
	if lane.priority != priority || lane.limits != limits || lane.look&(kindBits|bigLock) != l {
		return false
	}
	next := g.all[at].links
	for _, name := range g.scratch {
		if next == 0 || g.names.links.all[next].name != name {
			return false
		}
		next = g.names.links.all[next].nextIn
	}
	return next == 0
}

// make takes over the references of scratch.
func (g *groups) make(hash uint32, l lane) int32 {
	at := g.take()
	l.group = at
	made := group{hash: hash, lane: int32(len(g.lanes))}
	tail := int32(0)
	for _, name := range g.scratch {
		tail = g.names.link(at, name, tail)
		if made.links == 0 {
			made.links = tail
		}
		k := int(g.names.all[name].level - lock.Instance)
		if collides(l.look.kind(k), g.names.all[name].applied) {
			made.overlaps[k]++
			l.look |= overlap(k)
		}
	}
	g.limits.refer(l.limits)
	g.all[at] = made
	g.lanes = append(g.lanes, l)
	g.at.add(at)
	return at
}

// unmake forgets a group that has no candidates.
func (g *groups) unmake(at int32) {
	g.at.remove(at)
	gone := g.all[at]
	for l := gone.links; l != 0; {
		l = g.names.unlink(l)
	}
	g.limits.drop(g.lanes[gone.lane].limits)
	last := len(g.lanes) - 1
	g.lanes[gone.lane] = g.lanes[last]
	g.all[g.lanes[gone.lane].group].lane = gone.lane
	g.lanes = g.lanes[:last]
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

// head brings a lane up to date with the group's root.
func (g *groups) head(group int32) {
	root := &g.entries.all[g.all[group].root]
	lane := &g.lanes[g.all[group].lane]
	lane.id, lane.birth = root.id, root.birth
}

// lower makes those before a job count as received no later than a tick. It looks
// at everyone, but is needed only when the clock was set back.
func (g *groups) lower(id job.ID, tick int64) {
	for i := range g.entries.all {
		if e := &g.entries.all[i]; e.group != 0 && e.id < id {
			e.birth = min(e.birth, tick)
		}
	}
	for i := range g.lanes {
		g.head(g.lanes[i].group)
	}
}

// settle brings the overlaps up to date with the running side.
func (g *groups) settle() {
	g.names.settle(func(group int32, level lock.Level, was, is lock.Mode) {
		k := int(level - lock.Instance)
		to := &g.all[group]
		lane := &g.lanes[to.lane]
		kind := lane.look.kind(k)
		if before := collides(kind, was); before == collides(kind, is) {
			return
		} else if before {
			to.overlaps[k]--
		} else {
			to.overlaps[k]++
		}
		lane.look &^= overlap(k)
		if to.overlaps[k] > 0 {
			lane.look |= overlap(k)
		}
	})
	g.limits.settle()
}
