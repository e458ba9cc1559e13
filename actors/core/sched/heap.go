package sched

import "lockstep/actors/core/job"

// entry is a candidate: a node of its group's pairing heap, in which the smallest
// id is the root. Adding costs a step, removing the logarithm of the group's size
// over a sequence of them.
//
// Invariant: prev is the parent for a first child, the brother to the left for
// any other, and 0 for a root. A free entry has no group.
type entry struct {
	id                job.ID
	receivedUs        int64
	birth             int64 // see births
	group             int32
	child, next, prev int32
}

type entries struct{ arena[entry] }

// meld joins two roots, either of which may be missing.
func (h *entries) meld(a, b int32) int32 {
	if a == 0 || b == 0 {
		return a + b
	}
	if h.all[b].id < h.all[a].id {
		a, b = b, a
	}
	winner, loser := &h.all[a], &h.all[b]
	loser.prev, loser.next = a, winner.child
	if loser.next != 0 {
		h.all[loser.next].prev = b
	}
	winner.child = b
	return a
}

// without takes x out of the heap with the given root, and returns the new root.
func (h *entries) without(root, x int32) int32 {
	e := &h.all[x]
	if root != x {
		if left := &h.all[e.prev]; left.child == x {
			left.child = e.next
		} else {
			left.next = e.next
		}
		if e.next != 0 {
			h.all[e.next].prev = e.prev
		}
	}
	rest := h.children(x)
	e.child, e.next, e.prev = 0, 0, 0
	if root == x {
		return rest
	}
	return h.meld(root, rest)
}

// children joins the children of x: in pairs from left to right, and the pairs
// from right to left. Until then, pairs are stacked by their next.
func (h *entries) children(x int32) int32 {
	stack := int32(0)
	for a := h.all[x].child; a != 0; {
		b := h.all[a].next
		following := int32(0)
		if b != 0 {
			following = h.all[b].next
		}
		pair := h.meld(a, b)
		h.all[pair].next = stack
		stack, a = pair, following
	}
	root := int32(0)
	for stack != 0 {
		below := h.all[stack].next
		h.all[stack].next = 0
		root = h.meld(root, stack)
		stack = below
	}
	h.all[root].prev = 0
	return root
}
