package lock

import (
	"slices"
	"strings"
)

// Knowledge is how much is known of the locks that a job will ask for at one
// level, before it asks (designs.md "Job promotion
// algorithm").
type Knowledge uint8

// The order is that of the rows and columns of the comparison table. It says
// two things at once: the kind (some known ones, some, all) and the mode, which
// is what lies between a kind and its namesake.
const (
	Nothing          Knowledge = iota // no locks at this level
	SharedSet                         // these, shared
	UnknownShared                     // some, shared
	AllShared                         // all, shared
	ExclusiveSet                      // these, exclusively
	UnknownExclusive                  // some, exclusively
	AllExclusive                      // all, exclusively
)

const kinds = ExclusiveSet - SharedSet

// exclusively is the same kind of knowledge about exclusive locks.
func (k Knowledge) exclusively() Knowledge {
	if k == Nothing || k >= ExclusiveSet {
		return k
	}
	return k + kinds
}

func (k Knowledge) shared() Knowledge {
	if k >= ExclusiveSet {
		return k - kinds
	}
	return k
}

// Levels is how many levels a Declaration speaks of: Instance to Network.
const Levels = int(Network-Instance) + 1

// Want is what is known for one level. Names are sorted, without repetition,
// and there are some for SharedSet and ExclusiveSet only. They are never
// written to, for several declarations may have the same ones.
type Want struct {
	Known Knowledge
	Names []string
}

// Of is the want of these names, shared. It keeps the slice, and sorts it.
func Of(names ...string) Want {
	if len(names) > 1 {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if len(names) == 0 {
		return Want{}
	}
	return Want{SharedSet, names}
}

// Exclusively is the want of the same locks in the other mode.
func (w Want) Exclusively() Want { return Want{w.Known.exclusively(), w.Names} }

// Join is the least that covers both: it is commutative, associative and
// idempotent.
//
// Once a lock of the level is wanted exclusively, all of them count as such: to
// tell two sets of one level apart would take two wants, and two comparisons of
// everything. That says too much, never too little. For the same reason a known
// set drowns in what is not known: Names would be but a part then.
func (w Want) Join(v Want) Want {
	switch {
	case v.Known == Nothing:
		return w
	case w.Known == Nothing:
		return v
	}
	joined := Want{Known: max(w.Known.shared(), v.Known.shared())}
	if joined.Known == SharedSet {
		joined.Names = united(w.Names, v.Names)
	}
	if max(w.Known, v.Known) >= ExclusiveSet {
		joined.Known = joined.Known.exclusively()
	}
	return joined
}

// united merges two sorted lists, and writes to neither.
func united(a, b []string) []string {
	if slices.Equal(a, b) {
		return a
	}
	all := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		order := strings.Compare(a[0], b[0])
		if order <= 0 {
			all, a = append(all, a[0]), a[1:]
		} else {
			all = append(all, b[0])
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// Declaration is what an opcode, or a job, is expected to ask for. It predicts:
// nobody is held to it. Want of level l is Wants[l-Instance].
type Declaration struct {
	BGL   bool // the big lock, exclusively
	Wants [Levels]Want
}

// At is the want of a level from Instance to Network.
func (d *Declaration) At(level Level) *Want { return &d.Wants[level-Instance] }

// Merge is the worst case over several declarations, level by level: what a job
// may come to ask for whose opcodes they are. Of none it is the empty one.
func Merge(ds ...Declaration) Declaration {
	var worst Declaration
	for i := range ds {
		worst.BGL = worst.BGL || ds[i].BGL
		for l := range worst.Wants {
			worst.Wants[l] = worst.Wants[l].Join(ds[i].Wants[l])
		}
	}
	return worst
}

// Declared is what is known of who asks for these locks, or holds them. The big
// lock counts only if it is exclusive: nearly everybody has it shared.
func Declared(items ...Item) Declaration {
	var d Declaration
	for _, i := range items {
		level := i.Lock.level
		if level == Cluster {
			d.BGL = d.BGL || i.Mode == Exclusive
		}
		if level == Cluster || level == Config || i.Mode == None {
			continue
		}
		at := d.At(level)
		known := SharedSet
		if i.Lock.group {
			known = AllShared
		} else {
			at.Names = append(at.Names, i.Lock.member) // joining sets one by one would take the square of the time
		}
		if i.Mode == Exclusive {
			known = known.exclusively()
		}
		at.Known = Want{Known: at.Known}.Join(Want{Known: known}).Known
	}
	for l := range d.Wants {
		w := &d.Wants[l]
		switch known := w.Known; known {
		case SharedSet, ExclusiveSet:
			*w = Of(w.Names...)
			w.Known = known
		default:
			w.Names = nil
		}
	}
	return d
}
