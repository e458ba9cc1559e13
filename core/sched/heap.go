package sched

import "lockstep/core/job"

// entry is a candidate: a node of its group's skew heap, in which the smallest id
// is the root. Adding and removing cost the logarithm of the group's size over a
// sequence of them. A node has two children at most: whoever looks for those who
// go before somebody looks at few others.
//
// Invariant: prev is the parent, and 0 for a root. A free entry has no group.
type entry struct {
	id                job.ID
	receivedUs        int64
	birth             int64 // see births
	group             int32
	left, right, prev int32
}

type entries struct{ arena[entry] }

// meld joins two roots, either of which may be missing. On the way down each node's
// children change sides, so that no side stays the longer one.
func (h *entries) meld(a, b int32) int32 {
	root, parent := int32(0), int32(0)
	for a != 0 && b != 0 {
		if h.all[b].id < h.all[a].id {
			a, b = b, a
		}
		if parent == 0 {
			root = a
		} else {
			h.all[parent].left = a
		}
		e := &h.all[a]
		e.prev = parent
		following := e.right
		e.right = e.left
		parent, a = a, following
	}
	rest := a + b
	if parent == 0 {
		return rest
	}
	h.all[parent].left = rest
	if rest != 0 {
		h.all[rest].prev = parent
	}
	return root
}

// without takes x out of the heap with the given root, and returns the new root.
func (h *entries) without(root, x int32) int32 {
	e := h.all[x]
	rest := h.meld(e.left, e.right)
	h.all[x].left, h.all[x].right, h.all[x].prev = 0, 0, 0
	if rest != 0 {
		h.all[rest].prev = e.prev
	}
	switch {
	case root == x:
		return rest
	case h.all[e.prev].left == x:
		h.all[e.prev].left = rest
	default:
		h.all[e.prev].right = rest
	}
	return root
}
