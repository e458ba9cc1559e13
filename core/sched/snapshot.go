package sched

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/heap"
	"lockstep/core/job"
	"lockstep/core/lock"
)

// First is the first max candidates in the present order, also those that limits or locks keep from starting. It looks at
// each bucket once, and at few groups and candidates beyond those that it returns.
func (s *State) First(max int, now time.Time) []job.ID {
	s.refresh(now)
	g := s.groups
	var frontier heap.Heap[branch, branchOrder]
	addGroup := func(bucket int32, i int) {
		if groups := g.buckets.items[bucket].byID.Items(); i < len(groups) {
			group := groups[i]
			frontier.Push(branch{s.orderOf(g.rootOf(group), g.currentMask(group)), bucket, i, group, g.items[group].root})
		}
	}
	for _, at := range g.buckets.live {
		addGroup(at, 0)
	}
	var ids []job.ID
	for len(ids) < max && frontier.Len() > 0 {
		b := frontier.Pop()
		e := &g.entries.items[b.entry]
		ids = append(ids, e.id)
		if b.entry == g.items[b.group].root {
			addGroup(b.bucket, 2*b.index+1)
			addGroup(b.bucket, 2*b.index+2)
		}
		for _, child := range []int32{e.left, e.right} {
			if child != 0 {
				frontier.Push(branch{s.orderOf(&g.entries.items[child], g.currentMask(b.group)), b.bucket, b.index, b.group, child})
			}
		}
	}
	return ids
}

// branch is a candidate, the first of all those behind it in its bucket's heap of groups, or in its group's heap.
type branch struct {
	order  order
	bucket int32
	index  int // of the group in the bucket's heap
	group  int32
	entry  int32
}

type branchOrder struct{}

func (branchOrder) Before(a, b branch) bool { return a.order.before(b.order) }
func (branchOrder) Moved(branch, int)       {}

// OwnerLocks is the locks of an owner, as SetOwnerLocks took them.
type OwnerLocks struct {
	Owner   lock.Owner
	Held    []lock.Item
	Pending lock.Request
}

// AllLocks is the locks of all owners, by owner. In other orders than Expected it is empty.
func (s *State) AllLocks() []OwnerLocks {
	if s.expected == nil {
		return nil
	}
	var all []OwnerLocks
	for _, o := range slices.SortedFunc(maps.Keys(s.expected.owners), lock.Owner.Compare) {
		if p := s.expected.owners[o]; len(p.held)+len(p.pending) > 0 {
			all = append(all, OwnerLocks{o, p.held, p.pending})
		}
	}
	return all
}

// Blockers are the owners whose locks keep a job from those that it declares, in the order Expected.
func (s *State) Blockers(id job.ID, d lock.Declaration) []lock.Owner {
	if s.expected == nil {
		return nil
	}
	return s.expected.view.Blockers(jobOwnerKey(id), d.Request())
}
