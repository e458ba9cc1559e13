package sched

import (
	"math"
	"slices"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// lane is groups that differ in nothing but names, and whose names were in the way
// of the running side alike when they were last looked at.
//
// Those of its witnesses that are in the way now are so for each of its groups. So
// nobody in the lane goes before its first group, weighed as if no other name of
// it were in the way: births rise with ids. A group begins in the lane without
// witnesses. A choice that finds it to be the first of its lane, but behind that
// bound, moves it to where the bound is what it weighs.
//
// Invariants: a lane is known as long as it has groups, each of which declares the
// witnesses; heap is a binary heap of them by id, in which each knows its place.
type lane struct {
	kin
	heap []int32
	at   int32 // in lanes.live
}

// kin is what the groups of a lane have in common.
type kin struct {
	priority  int32
	look      look // without overlaps
	limits    int32
	witnesses [lock.Levels]int32 // names, or 0
}

// lanes is all of them. A choice goes through those that live.
type lanes struct {
	arena[lane]
	at   map[kin]int32
	live []int32
}

// nobody is the id of a group that has no candidate yet. It goes last.
const nobody = job.ID(math.MaxInt64)

// lane finds or makes the lane of such groups. Who makes one puts a group into it.
func (g *groups) lane(of kin) int32 {
	if at, known := g.lanes.at[of]; known {
		return at
	}
	at := g.lanes.take()
	g.lanes.all[at] = lane{kin: of, at: int32(len(g.lanes.live))}
	g.lanes.live = append(g.lanes.live, at)
	g.lanes.at[of] = at
	for _, name := range of.witnesses {
		if name != 0 {
			g.names.all[name].refs++
		}
	}
	g.limits.refer(of.limits)
	return at
}

// close forgets a lane that has no groups.
func (g *groups) close(at int32) {
	gone := &g.lanes.all[at]
	delete(g.lanes.at, gone.kin)
	for _, name := range gone.witnesses {
		if name != 0 {
			g.names.drop(name)
		}
	}
	g.limits.drop(gone.limits)
	live := g.lanes.live
	last := live[len(live)-1]
	live[gone.at], g.lanes.all[last].at = last, gone.at
	g.lanes.live = live[:len(live)-1]
	g.lanes.give(at)
}

// enter puts a group into a lane.
func (g *groups) enter(group, lane int32) {
	l := &g.lanes.all[lane]
	g.all[group].lane, g.all[group].place = lane, int32(len(l.heap))
	l.heap = append(l.heap, group)
	g.rise(l.heap, len(l.heap)-1)
}

// exit takes a group out of its lane, which is closed if that was its last.
func (g *groups) exit(group int32) {
	at, place := g.all[group].lane, g.all[group].place
	l := &g.lanes.all[at]
	last := l.heap[len(l.heap)-1]
	l.heap = l.heap[:len(l.heap)-1]
	switch {
	case len(l.heap) == 0:
		g.close(at)
		return
	case last != group:
		l.heap[place], g.all[last].place = last, place
		g.reorder(last)
	}
	if cap(l.heap) > 64 && len(l.heap) < cap(l.heap)/4 {
		l.heap = slices.Clone(l.heap) // a long backlog is over
	}
}

// reorder puts a group in its place whose id has changed.
func (g *groups) reorder(group int32) {
	heap := g.lanes.all[g.all[group].lane].heap
	if place := int(g.all[group].place); !g.rise(heap, place) {
		g.sink(heap, place)
	}
}

func (g *groups) rise(heap []int32, i int) (risen bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if g.all[heap[parent]].id <= g.all[heap[i]].id {
			break
		}
		g.swap(heap, i, parent)
		i, risen = parent, true
	}
	return risen
}

func (g *groups) sink(heap []int32, i int) {
	for {
		least := 2*i + 1
		if least >= len(heap) {
			return
		}
		if right := least + 1; right < len(heap) && g.all[heap[right]].id < g.all[heap[least]].id {
			least = right
		}
		if g.all[heap[i]].id <= g.all[heap[least]].id {
			return
		}
		g.swap(heap, i, least)
		i = least
	}
}

func (g *groups) swap(heap []int32, i, j int) {
	heap[i], heap[j] = heap[j], heap[i]
	g.all[heap[i]].place, g.all[heap[j]].place = int32(i), int32(j)
}

// known is a lane's look with the overlaps that its witnesses tell of now.
func (g *groups) known(l *lane) look {
	known := l.look
	for _, name := range l.witnesses {
		if name != 0 {
			known |= g.names.overlap(l.look, name)
		}
	}
	return known
}

// lookNow is a group's look with the overlaps that there are now.
func (g *groups) lookNow(group int32) look {
	wants := g.lanes.all[g.all[group].lane].look
	now := wants
	for name := range g.names.of(g.all[group].links) {
		now |= g.names.overlap(wants, name)
	}
	return now
}

// laneOf is the lane for what a group overlaps now. Its witness at a level is the
// first name that overlaps there.
func (g *groups) laneOf(group int32) int32 {
	of := g.lanes.all[g.all[group].lane].kin
	of.witnesses = [lock.Levels]int32{}
	for name := range g.names.of(g.all[group].links) {
		w := &of.witnesses[g.names.all[name].level-lock.Instance]
		if *w == 0 && g.names.overlap(of.look, name) != 0 {
			*w = name
		}
	}
	return g.lane(of)
}
