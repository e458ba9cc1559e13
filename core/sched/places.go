package sched

import (
	"math"

	"lockstep/core/heap"
	"lockstep/core/job"
	"lockstep/core/lock"
)

// places is where the groups of the order Expected are. A group is at the place that names what keeps its first
// candidate from starting, or that did when the group was last examined. A place is open if this may have changed. A
// pick examines the first groups of open places only, so that groups that cannot start cost nothing.
//
// The closed place of a shape watches one name of the shape that is taken. When the name is given up, the place watches
// another one that is taken, and opens if there is none. So a name that many want, each with another one, costs one
// comparison for each shape, and no group moves.
//
// Invariants: each group with candidates is at one place. A place exists as long as it has groups. The heap open has
// the open places, by the order of their first groups. No group of a closed place can start, unless the name that the
// place watches is in freed.
type places struct {
	arena[place]
	groups  *groups
	byKey   map[placeKey]int32
	open    heap.Heap[int32, openOrder]
	ageing  int64 // Settings.Ageing
	tickMs  int64 // Settings.Tick, at least 1
	scratch []int32
	// watchers are the shapes whose places watch a name; the key is negative for shared demands.
	watchers map[int32]*watchList
	// freed are names that may conflict with fewer demands than before. Their watchers have not been told.
	freed   []int32
	isFreed map[int32]struct{}
}

// watchList lists the shapes that wait for one name: when fewer demands conflict with it, their places watch another name that is taken,
// or are opened.
type watchList struct{ shapes []int32 }

// placeKey is what keeps the groups of a place from starting. At most one part is set; without any, the groups have not
// been examined.
type placeKey struct {
	point    lock.Point    // another owner is there
	name     int32         // another owner has this name; negative for shared demands
	shape    int32         // another owner has a name of this shape
	limits   int32         // this set is full
	reserver job.ID        // this job reserves locks that the groups want, and would start before their jobs
	class    durationClass // had ended, which are expected to take so long
}

// place is a heap of groups by order.
type place struct {
	// place is where the groups wait that the same thing keeps from starting; they are in the order in which they would start.
	key    placeKey
	groups heap.Heap[int32, placeOrder]
	inOpen int32 // the index in places.open
	opened bool
}

// placeOrder compares the groups of a place by their first candidates.
type placeOrder struct{ *places }

func (o placeOrder) Before(a, b int32) bool       { return o.rankOf(a).before(o.rankOf(b)) }
func (o placeOrder) Moved(group int32, index int) { o.groups.items[group].placeIndex = int32(index) }

// openOrder compares open places by their first groups.
type openOrder struct{ *places }

func (o openOrder) Before(a, b int32) bool {
	return o.rankOf(o.items[a].groups.First()).before(o.rankOf(o.items[b].groups.First()))
}
func (o openOrder) Moved(place int32, index int) { o.items[place].inOpen = int32(index) }

func newPlaces(g *groups) *places {
	p := &places{groups: g, byKey: map[placeKey]int32{}, watchers: map[int32]*watchList{}, isFreed: map[int32]struct{}{}}
	p.open.Order = openOrder{p}
	return p
}

// continuesFirst is subtracted from the score of a job that has a process, so that it precedes new jobs of its priority.
const continuesFirst = math.MaxInt64 / 2

// rankOf is the rank of a group.
func (p *places) rankOf(group int32) rank {
	g := &p.groups.items[group]
	return p.rankIn(&p.groups.buckets.items[g.bucket], &p.groups.entries.items[g.root])
}

// rankIn is the rank of a candidate in a bucket. Its score is the time of its arrival plus a multiple of its expected
// duration. This is its expected duration minus its age, up to a factor and a number that all jobs have in common.
func (p *places) rankIn(b *bucket, e *entry) rank {
	score := e.arrivalTick*p.tickMs + b.class.ms()*p.ageing
	if b.continues {
		score -= continuesFirst
	}
	return rank{b.priority, score, e.id}
}

// put puts a group at a place. A new place, and the place of new groups, is open if the caller says so.
func (p *places) put(group int32, key placeKey, open bool) {
	at := p.find(key)
	if at == 0 {
		at = p.alloc()
		p.items[at] = place{key: key, groups: heap.Heap[int32, placeOrder]{Order: placeOrder{p}}}
		p.record(key, at)
	}
	p.groups.items[group].place = at
	p.items[at].groups.Push(group)
	p.changed(at)
	if open {
		p.openPlace(at)
	} else if key.shape != 0 && !p.items[at].opened && p.groups.shapes.items[key.shape].watched == 0 {
		p.watch(key.shape)
	}
}

// putNew puts a group that has not been examined at the place of its shape. One examination of a taken name
// then counts for all groups there. The only group of a shape goes to the place of the groups that have not been examined.
func (p *places) putNew(group int32) {
	at := p.groups.items[group].shape
	if s := &p.groups.shapes.items[at]; s.groups == 1 || p.groups.bucketOf(group).continues {
		p.put(group, placeKey{}, true)
	} else {
		p.put(group, placeKey{shape: at}, s.watched == 0)
	}
}

// find is the place with a key, or 0.
func (p *places) find(key placeKey) int32 {
	if key.shape != 0 {
		return p.groups.shapes.items[key.shape].place
	}
	return p.byKey[key]
}

// record records which place has a key; 0: none.
func (p *places) record(key placeKey, at int32) {
	switch {
	case key.shape != 0:
		p.groups.shapes.items[key.shape].place = at
	case at != 0:
		p.byKey[key] = at
	default:
		delete(p.byKey, key)
	}
}

// take takes a group from its place, if it has one. A place goes with its last group.
func (p *places) take(group int32) {
	g := &p.groups.items[group]
	at := g.place
	if at == 0 {
		return
	}
	g.place = 0
	l := &p.items[at]
	if l.groups.Len() == 1 {
		p.closePlace(at)
		p.unwatch(l.key.shape)
		l.groups.Remove(0)
		p.record(l.key, 0)
		p.release(at)
		return
	}
	l.groups.Remove(int(g.placeIndex))
	p.changed(at)
}

// headChanged restores the order after the first candidate of a group has changed. A group that is at no place is new.
func (p *places) headChanged(group int32) {
	g := &p.groups.items[group]
	if g.place == 0 {
		p.putNew(group)
		return
	}
	p.items[g.place].groups.Fix(int(g.placeIndex))
	p.changed(g.place)
}

// changed restores the order of open places after one of them has changed.
func (p *places) changed(at int32) {
	if p.items[at].opened {
		p.open.Fix(int(p.items[at].inOpen))
	}
}

func (p *places) openPlace(at int32) {
	if !p.items[at].opened {
		p.unwatch(p.items[at].key.shape)
		p.items[at].opened = true
		p.open.Push(at)
	}
}

func (p *places) closePlace(at int32) {
	if p.items[at].opened {
		p.items[at].opened = false
		p.open.Remove(int(p.items[at].inOpen))
	}
}

// openKey opens the place whose groups wait for what the key names, if there are any: it has changed, so they are examined again.
func (p *places) openKey(key placeKey) {
	if at := p.find(key); at != 0 {
		p.openPlace(at)
	}
}

// best returns the group that goes first among those at open places, or 0 if no place is open.
func (p *places) best() int32 {
	if p.open.Len() == 0 {
		return 0
	}
	return p.items[p.open.First()].groups.First()
}

// park puts a group at the place for what keeps it from starting. If that is its own place, nothing has changed for any
// group there, and the place is closed.
func (p *places) park(group int32, key placeKey) {
	at := p.groups.items[group].place
	if p.items[at].key == key {
		p.closePlace(at)
		if key.shape != 0 {
			p.watch(key.shape)
		}
		return
	}
	p.take(group)
	p.put(group, key, false)
}

// isOpen reports whether a group is at an open place.
func (p *places) isOpen(group int32) bool { return p.items[p.groups.items[group].place].opened }

// watch makes the closed place of a shape watch a name that is taken.
func (p *places) watch(shape int32) {
	if name := p.groups.blockingShape(shape); name != 0 {
		p.watchName(shape, name)
	}
}

func (p *places) watchName(shape, name int32) {
	list := p.watchers[name]
	if list == nil {
		list = &watchList{}
		p.watchers[name] = list
	}
	s := &p.groups.shapes.items[shape]
	s.watched, s.watchIndex = name, int32(len(list.shapes))
	list.shapes = append(list.shapes, shape)
}

// unwatch makes the place of a shape watch nothing. Shape 0 watches nothing.
func (p *places) unwatch(shape int32) {
	s := &p.groups.shapes
	if shape == 0 || s.items[shape].watched == 0 {
		return
	}
	name, at := s.items[shape].watched, s.items[shape].watchIndex
	list := p.watchers[name]
	last := list.shapes[len(list.shapes)-1]
	list.shapes[at], s.items[last].watchIndex = last, at
	s.items[shape].watched, s.items[shape].watchIndex = 0, 0
	if list.shapes = list.shapes[:len(list.shapes)-1]; len(list.shapes) == 0 {
		delete(p.watchers, name)
	}
}

// nameFreed remembers a name that conflicts with fewer demands than before.
func (p *places) nameFreed(name int32) {
	if _, known := p.isFreed[name]; !known {
		p.isFreed[name] = struct{}{}
		p.freed = append(p.freed, name)
	}
}

// tellWatchers tells the places that watch freed names, at most as many as given. It reports whether all were told.
func (p *places) tellWatchers(most int) bool {
	for len(p.freed) > 0 {
		name := p.freed[len(p.freed)-1]
		p.openKey(placeKey{name: name})
		p.openKey(placeKey{name: -name})
		if !p.tell(name, &most) || !p.tell(-name, &most) {
			return false
		}
		p.freed = p.freed[:len(p.freed)-1]
		delete(p.isFreed, name)
	}
	return true
}

// tell makes the places that watch a name watch another one that is taken, and opens those that find none. It stops when
// left is used up, and reports whether it was not.
func (p *places) tell(name int32, left *int) bool {
	list := p.watchers[name]
	if list == nil {
		return true
	}
	for n := len(list.shapes); n > 0; n-- {
		if *left == 0 {
			return false
		}
		*left--
		at := list.shapes[n-1]
		blocking := p.groups.blockingShape(at)
		if blocking == name {
			return true // it was taken again, for all that watch it
		}
		list.shapes = list.shapes[:n-1]
		p.groups.shapes.items[at].watched = 0
		if blocking != 0 {
			p.watchName(at, blocking)
		} else {
			p.openPlace(p.groups.shapes.items[at].place)
		}
	}
	delete(p.watchers, name)
	return true
}

// rebuild examines all groups again, because their order has changed.
func (p *places) rebuild() {
	p.scratch = p.scratch[:0]
	for at := range p.items {
		p.scratch = append(p.scratch, p.items[at].groups.Items()...)
	}
	for at := range p.items {
		if key := p.items[at].key; key.shape != 0 {
			p.unwatch(key.shape)
			p.record(key, 0)
		}
	}
	p.arena, p.byKey = arena[place]{}, map[placeKey]int32{}
	p.open = heap.Heap[int32, openOrder]{Order: openOrder{p}}
	for _, group := range p.scratch {
		p.groups.items[group].place = 0
		p.putNew(group)
	}
	p.scratch = nil
}
