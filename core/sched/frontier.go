package sched

import "lockstep/core/heap"

// frontier goes through the candidates in the present order. In the heaps of buckets and groups each candidate precedes those
// behind it, so few are examined beyond those that are wanted.
type frontier struct {
	*State
	branches heap.Heap[branch, branchOrder]
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

// newFrontier is before the first candidate of the buckets that are admitted.
func (s *State) newFrontier(admits func(bucket int32) bool) *frontier {
	f := &frontier{State: s}
	for _, at := range s.groups.buckets.live {
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
		f.branches.Push(branch{f.presentOrder(root), bucket, i, groups[i], root})
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
			f.branches.Push(branch{f.presentOrder(child), b.bucket, b.index, b.group, child})
		}
	}
}

// presentOrder is the order of a candidate.
func (s *State) presentOrder(at int32) order {
	e := &s.groups.entries.items[at]
	if s.expected != nil {
		return s.orderOf(e, 0) // which depends on no mask
	}
	return s.orderOf(e, s.groups.currentMask(e.group))
}
