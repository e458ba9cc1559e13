package lock

// heapItem is an element of a heap: it has an order, and a field in which the heap stores its index.
type heapItem[T any] interface {
	before(T) bool
	heapIndex() *int
}

// heap gives its least element at once, and adds or removes any element in the logarithm of their number.
//
// Invariant: *items[i].heapIndex() == i, and no element is before its parent.
type heap[T heapItem[T]] struct{ items []T }

func (h *heap[T]) push(x T) {
	*x.heapIndex() = len(h.items)
	h.items = append(h.items, x)
	h.fix(x)
}

// remove takes out an element that is in the heap.
func (h *heap[T]) remove(x T) {
	var none T
	i, last := *x.heapIndex(), len(h.items)-1
	h.swap(i, last)
	h.items[last] = none
	h.items = h.items[:last]
	if i < last {
		h.fix(h.items[i])
	}
}

// fix restores the invariant after the order of one element, x, has changed.
func (h *heap[T]) fix(x T) {
	i := *x.heapIndex()
	for i > 0 && h.items[i].before(h.items[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(h.items) && h.items[child].before(h.items[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *heap[T]) swap(i, k int) {
	h.items[i], h.items[k] = h.items[k], h.items[i]
	*h.items[i].heapIndex(), *h.items[k].heapIndex() = i, k
}
