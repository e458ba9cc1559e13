package sched

// arena keeps values that refer to each other by index. Indices take half the space of pointers, and the garbage
// collector does not scan them. Index 0 means "none".
type arena[T any] struct {
	items []T
	free  []int32
}

func (a *arena[T]) alloc() int32 {
	if n := len(a.free); n > 0 {
		at := a.free[n-1]
		a.free = a.free[:n-1]
		return at
	}
	var zero T
	if len(a.items) == 0 {
		a.items = append(a.items, zero)
	}
	a.items = append(a.items, zero)
	return int32(len(a.items) - 1)
}

func (a *arena[T]) release(at int32) {
	var zero T
	a.items[at] = zero
	a.free = append(a.free, at)
}

// hashIndex finds the indices of an arena by hash. It is a table with linear probing. A map would take four times the
// space, which counts for every pending job.
//
// Invariants: the number of slots is a power of two. At least a quarter of them is empty. No slot between the one that
// a hash points to and the one that holds the index is empty.
type hashIndex struct {
	slots  []int32
	used   int
	hashOf func(at int32) uint32
}

func (x *hashIndex) find(hash uint32, same func(at int32) bool) int32 {
	if len(x.slots) == 0 {
		return 0
	}
	mask := uint32(len(x.slots) - 1)
	for i := hash & mask; x.slots[i] != 0; i = (i + 1) & mask {
		if same(x.slots[i]) {
			return x.slots[i]
		}
	}
	return 0
}

func (x *hashIndex) add(at int32) {
	if (x.used+1)*4 > len(x.slots)*3 {
		old := x.slots
		x.slots = make([]int32, max(8, 2*len(old)))
		for _, at := range old {
			if at != 0 {
				x.insert(at)
			}
		}
	}
	x.insert(at)
	x.used++
}

func (x *hashIndex) insert(at int32) {
	mask := uint32(len(x.slots) - 1)
	i := x.hashOf(at) & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = at
}

// remove removes the entry at, and closes the gap with entries that collisions had displaced.
func (x *hashIndex) remove(at int32) {
	mask := uint32(len(x.slots) - 1)
	gap := x.hashOf(at) & mask
	for x.slots[gap] != at {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; x.slots[i] != 0; i = (i + 1) & mask {
		home := x.hashOf(x.slots[i]) & mask
		if (i-home)&mask >= (i-gap)&mask {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = 0
	x.used--
}

// mix folds a number into a hash. The upper half of the product depends on all
// bits.
func mix(hash uint32, n uint64) uint32 {
	return uint32(((uint64(hash)<<32 ^ n ^ n>>29) * 0x9E3779B97F4A7C15) >> 32)
}
