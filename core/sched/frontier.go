package sched

import (
	"time"

	"lockstep/core/heap"
	"lockstep/core/job"
)

// frontier goes through the candidates in the present order. In the heaps of buckets and groups each candidate precedes those
// behind it, so few are examined beyond those that are wanted.
type frontier struct {
	groups   *groups
	by       ranking
	branches heap.Heap[branch, branchOrder]
}

// branch is a candidate, the first of all those behind it in its bucket's heap of groups, or in its group's heap.
type branch struct {
	rank   rank
	bucket int32
	index  int // of the group in the bucket's heap
	group  int32
	entry  int32
}

type branchOrder struct{}

func (branchOrder) Before(a, b branch) bool { return a.rank.before(b.rank) }
func (branchOrder) Moved(branch, int)       {}

// newFrontier is before the first candidate of the buckets that are admitted.
func newFrontier(g *groups, by ranking, admits func(bucket int32) bool) *frontier {
	f := &frontier{groups: g, by: by}
	for _, at := range g.buckets.live {
		if admits(at) {
			f.addGroup(at, 0)
		}
	}
	return f
}

// addGroup adds the group with an index in its bucket's heap, if there is one.
func (f *frontier) addGroup(bucket int32, i int) {
	if groups := f.groups.buckets.items[bucket].byID.Items(); i < len(groups) {
		root := f.groups.items[groups[i]].root
		f.branches.Push(branch{presentRank(f.groups, f.by, root), bucket, i, groups[i], root})
	}
}

// pop takes the next candidate; false if there is none. Those behind it are added by expand.
func (f *frontier) pop() (branch, bool) {
	if f.branches.Len() == 0 {
		return branch{}, false
	}
	return f.branches.Pop(), true
}

func (f *frontier) expand(b branch) {
	if b.entry == f.groups.items[b.group].root {
		f.addGroup(b.bucket, 2*b.index+1)
		f.addGroup(b.bucket, 2*b.index+2)
	}
	e := &f.groups.entries.items[b.entry]
	for _, child := range []int32{e.left, e.right} {
		if child != 0 {
			f.branches.Push(branch{presentRank(f.groups, f.by, child), b.bucket, b.index, b.group, child})
		}
	}
}

// presentRank returns the key by which a candidate is compared with others at this moment.
func presentRank(g *groups, by ranking, at int32) rank {
	e := &g.entries.items[at]
	return by.rankOf(e, by.maskOf(e.group))
}

// First is the first max candidates in the present order, also those that limits or locks keep from starting. It looks at
// each bucket once, and at few groups and candidates beyond those that it returns.
func (s *State) First(max int, now time.Time) []job.ID {
	s.refresh(now)
	return first(s.groups, s.order, max)
}

// first returns what First does. The ranks must be up to date (refresh).
func first(g *groups, by ranking, max int) []job.ID {
	f := newFrontier(g, by, func(int32) bool { return true })
	var ids []job.ID
	for len(ids) < max {
		at, more := f.pop()
		if !more {
			break
		}
		ids = append(ids, at.rank.id)
		f.expand(at)
	}
	return ids
}
