package lock

import (
	"slices"
	"strings"
)

// DemandKind is how much is known of the locks that a job will ask for at one level, before it asks (designs.md "Job
// promotion algorithm").
type DemandKind uint8

// The order is that of the rows and columns of the comparison table. Each kind exists for both modes, at a distance of
// kindsPerMode.
const (
	Nothing          DemandKind = iota // no locks at this level
	SharedSet                          // the named locks, shared
	UnknownShared                      // some locks, unknown which, shared
	AllShared                          // all locks of the level, shared
	ExclusiveSet                       // the named locks, exclusively
	UnknownExclusive                   // some locks, unknown which, exclusively
	AllExclusive                       // all locks of the level, exclusively
)

// kindsPerMode is the distance between a kind and the same kind in the other mode.
const kindsPerMode = ExclusiveSet - SharedSet

// exclusively returns the demand for the same names, or as little known ones, held exclusively.
func (k DemandKind) exclusively() DemandKind {
	if k == Nothing || k >= ExclusiveSet {
		return k
	}
	return k + kindsPerMode
}

func (k DemandKind) shared() DemandKind {
	if k >= ExclusiveSet {
		return k - kindsPerMode
	}
	return k
}

// Levels is how many levels a Declaration speaks of: Instance to Network, and Free. They are numbered from 0 in their
// order.
const Levels = int(Network-Instance) + 2

// DemandLevel is the level at index k of Declaration.Demands.
func DemandLevel(k int) Level {
	if k == Levels-1 {
		return Free
	}
	return Instance + Level(k)
}

// Demanded is the number of a level; false for the levels of which a Declaration does not speak.
func (l Level) Demanded() (k int, ok bool) {
	if l == Free {
		return Levels - 1, true
	}
	return int(l) - int(Instance), l >= Instance && l <= Network
}

// Demand is what is known for one level. Names are sorted, without repetition; only SharedSet and ExclusiveSet have
// names, at least one. Names are never changed, because several declarations may share them.
type Demand struct {
	Kind  DemandKind
	Names []string
}

// SharedSetOf is the demand for these names, shared. It keeps the slice, and sorts it.
func SharedSetOf(names ...string) Demand {
	if len(names) > 1 {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if len(names) == 0 {
		return Demand{}
	}
	return Demand{SharedSet, names}
}

// Exclusively is the demand for the same locks in exclusive mode.
func (w Demand) Exclusively() Demand { return Demand{w.Kind.exclusively(), w.Names} }

// Join is the smallest demand that covers both. It is commutative, associative and idempotent.
//
// If one lock of the level is wanted exclusively, all of them count as exclusive: two sets for one level would take
// two demands, and twice as many comparisons. The result may say too much, never too little. For the same reason a
// known set joined with an unknown one is unknown: Names would be only a part.
func (w Demand) Join(v Demand) Demand {
	switch {
	case v.Kind == Nothing:
		return w
	case w.Kind == Nothing:
		return v
	}
	joined := Demand{Kind: max(w.Kind.shared(), v.Kind.shared())}
	if joined.Kind == SharedSet {
		joined.Names = mergeSorted(w.Names, v.Names)
	}
	if max(w.Kind, v.Kind) >= ExclusiveSet {
		joined.Kind = joined.Kind.exclusively()
	}
	return joined
}

// mergeSorted merges two sorted lists, and writes to neither.
func mergeSorted(a, b []string) []string {
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

// Declaration is what an opcode, or a job, is expected to ask for. It is a prediction that is not enforced. The demand
// at level DemandLevel(k) is Demands[k].
type Declaration struct {
	BGL     bool // the big lock, exclusively
	Demands [Levels]Demand
}

// At is the demand at a level from Instance to Network, or at Free. It panics for other levels.
func (d *Declaration) At(level Level) *Demand {
	k, ok := level.Demanded()
	if !ok {
		panic("no demand at level " + level.String())
	}
	return &d.Demands[k]
}

// Merge is the worst case over several declarations, level by level: what a job with these opcodes may ask for.
// Without declarations it is the empty one.
func Merge(ds ...Declaration) Declaration {
	var merged Declaration
	for i := range ds {
		merged.BGL = merged.BGL || ds[i].BGL
		for l := range merged.Demands {
			merged.Demands[l] = merged.Demands[l].Join(ds[i].Demands[l])
		}
	}
	return merged
}

// DeclarationOf is the declaration of an owner that asks for these locks, or holds them. The big lock counts only if
// it is exclusive, because nearly every job holds it shared.
func DeclarationOf(items ...Item) Declaration {
	var d Declaration
	for _, i := range items {
		level := i.Lock.level
		if level == Cluster {
			d.BGL = d.BGL || i.Mode == Exclusive
		}
		k, demanded := level.Demanded()
		if !demanded || i.Mode == None {
			continue
		}
		at := &d.Demands[k]
		kind := SharedSet
		if i.Lock.group {
			kind = AllShared
		} else {
			at.Names = append(at.Names, i.Lock.member) // joining sets one by one would take the square of the time
		}
		if i.Mode == Exclusive {
			kind = kind.exclusively()
		}
		at.Kind = Demand{Kind: at.Kind}.Join(Demand{Kind: kind}).Kind
	}
	for l := range d.Demands {
		w := &d.Demands[l]
		switch kind := w.Kind; kind {
		case SharedSet, ExclusiveSet:
			*w = SharedSetOf(w.Names...)
			w.Kind = kind
		default:
			w.Names = nil
		}
	}
	return d
}
