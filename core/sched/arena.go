package sched

// arena keeps values that refer to each other by place, in half the room of
// pointers and out of the collector's sight. Place 0 is nobody's: it means none.
type arena[T any] struct {
	all  []T
	free []int32
}

func (a *arena[T]) take() int32 {
	if n := len(a.free); n > 0 {
		at := a.free[n-1]
		a.free = a.free[:n-1]
		return at
	}
	var zero T
	if len(a.all) == 0 {
		a.all = append(a.all, zero)
	}
	a.all = append(a.all, zero)
	return int32(len(a.all) - 1)
}

func (a *arena[T]) give(at int32) {
	var zero T
	a.all[at] = zero
	a.free = append(a.free, at)
}

// index finds places by hash: a table with linear probing. A map would take four
// times the room, which counts for every pending job.
//
// Invariants: the number of slots is a power of two, at least a quarter of them
// is empty, and between a place and where its hash points no slot is empty.
type index struct {
	slots  []int32
	used   int
	hashOf func(at int32) uint32
}

func (x *index) find(hash uint32, same func(at int32) bool) int32 {
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

func (x *index) add(at int32) {
	if (x.used+1)*4 > len(x.slots)*3 {
		former := x.slots
		x.slots = make([]int32, max(8, 2*len(former)))
		for _, known := range former {
			if known != 0 {
				x.place(known)
			}
		}
	}
	x.place(at)
	x.used++
}

func (x *index) place(at int32) {
	mask := uint32(len(x.slots) - 1)
	i := x.hashOf(at) & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = at
}

// remove closes the gap with those that were pushed aside.
func (x *index) remove(at int32) {
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
