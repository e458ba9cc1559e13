package sched

import "lockstep/core/job"

// entry is a candidate: a node of its group's skew heap, in which the smallest id is the root. Adding and removing
// cost the logarithm of the group's size, amortised. A node has at most two children, so a search for all that precede
// a given candidate visits few others.
//
// Invariant: parent is 0 for a root. A free entry has no group.
type entry struct {
	id                  job.ID
	receivedUs          int64
	arrivalTick         int64 // see arrivalTicks
	group               int32
	left, right, parent int32
}

type entries struct{ arena[entry] }

// meld joins two roots, either of which may be missing. On the way down the children of each node change sides, so
// that no side stays the longer one.
func (h *entries) meld(a, b int32) int32 {
	root, parent := int32(0), int32(0)
	for a != 0 && b != 0 {
		if h.items[b].id < h.items[a].id {
			a, b = b, a
		}
		if parent == 0 {
			root = a
		} else {
			h.items[parent].left = a
		}
		e := &h.items[a]
		e.parent = parent
		next := e.right
		e.right = e.left
		parent, a = a, next
	}
	rest := a + b
	if parent == 0 {
		return rest
	}
	h.items[parent].left = rest
	if rest != 0 {
		h.items[rest].parent = parent
	}
	return root
}

// remove takes x out of the heap with the given root, and returns the new root.
func (h *entries) remove(root, x int32) int32 {
	e := h.items[x]
	rest := h.meld(e.left, e.right)
	h.items[x].left, h.items[x].right, h.items[x].parent = 0, 0, 0
	if rest != 0 {
		h.items[rest].parent = e.parent
	}
	switch {
	case root == x:
		return rest
	case h.items[e.parent].left == x:
		h.items[e.parent].left = rest
	default:
		h.items[e.parent].right = rest
	}
	return root
}
