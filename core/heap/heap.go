// Package heap owns the heap of the lock manager, the scheduler and the simulator: a set of elements of which the
// first one, by an order of the user, is found at once. It may be asked for its first element and for all elements.
// Adding, removing and moving any element cost the logarithm of their number. A heap is in memory only.
package heap

import "slices"

// Order is the order of the elements of a heap. A heap is used through indices, so Order also records them.
type Order[T any] interface {
	// Before reports whether a precedes b.
	Before(a, b T) bool
	// Moved records the index of x, for Remove and Fix. It may do nothing if only the first element is ever removed.
	Moved(x T, index int)
}

// Heap is a binary heap. Without elements, a Heap with a usable Order is ready for use.
//
// Invariants: the element at index i does not precede the one at (i-1)/2. Order.Moved received the index of each
// element when it last changed.
type Heap[T any, O Order[T]] struct {
	Order O
	items []T
}

// Len is the number of elements.
func (h *Heap[T, O]) Len() int { return len(h.items) }

// First is an element that no other precedes. It panics if there is none.
func (h *Heap[T, O]) First() T { return h.items[0] }

// Items is all elements by index, valid until the next change. The elements at 2i+1 and 2i+2 do not precede that at i.
func (h *Heap[T, O]) Items() []T { return h.items }

// Push adds an element.
func (h *Heap[T, O]) Push(x T) {
	h.items = append(h.items, x)
	h.rise(x, len(h.items)-1)
}

// Remove removes the element with that index.
func (h *Heap[T, O]) Remove(i int) {
	var none T
	last := len(h.items) - 1
	x := h.items[last]
	h.items[last] = none
	h.items = h.items[:last]
	if i < last {
		h.place(x, i)
	}
	h.shrink()
}

// Pop removes and returns the first element. The heap must not be empty.
func (h *Heap[T, O]) Pop() T {
	first := h.items[0]
	h.Remove(0)
	return first
}

// Fix restores the invariant after the element with that index has changed its order.
func (h *Heap[T, O]) Fix(i int) { h.place(h.items[i], i) }

// Filter removes the elements for which keep returns false. It calls keep once for each element, in any order, and
// costs no more than their number. keep must not use the heap.
func (h *Heap[T, O]) Filter(keep func(T) bool) {
	h.items = slices.DeleteFunc(h.items, func(x T) bool { return !keep(x) })
	for i := len(h.items) - 1; i >= 0; i-- {
		h.sink(h.items[i], i)
	}
	h.shrink()
}

// place puts x at i, or as far above or below as its order demands.
func (h *Heap[T, O]) place(x T, i int) {
	if i > 0 && h.Order.Before(x, h.items[(i-1)/2]) {
		h.rise(x, i)
	} else {
		h.sink(x, i)
	}
}

// rise puts x at index i or, while it goes before its parent, further up.
func (h *Heap[T, O]) rise(x T, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		above := h.items[parent]
		if !h.Order.Before(x, above) {
			break
		}
		h.items[i] = above
		h.Order.Moved(above, i)
		i = parent
	}
	h.items[i] = x
	h.Order.Moved(x, i)
}

// sink puts x at index i or, while a child goes before it, further down. It reports each new index to Order.Moved.
func (h *Heap[T, O]) sink(x T, i int) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.Order.Before(h.items[right], h.items[child]) {
			child = right
		}
		below := h.items[child]
		if !h.Order.Before(below, x) {
			break
		}
		h.items[i] = below
		h.Order.Moved(below, i)
		i = child
	}
	h.items[i] = x
	h.Order.Moved(x, i)
}

// shrinkAbove is the capacity up to which a heap keeps its array.
const shrinkAbove = 64

// shrink frees most of the array after a long backlog has ended.
func (h *Heap[T, O]) shrink() {
	if cap(h.items) > shrinkAbove && len(h.items) < cap(h.items)/4 {
		h.items = slices.Clone(h.items)
	}
}
