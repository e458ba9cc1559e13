package sched

import "lockstep/core/lock"

// demandKinds is the number of rows and of columns of the comparison table.
const demandKinds = int(lock.AllExclusive) + 1

// cell is a value of the comparison table, in tenths: apart if the two have no name in common, overlap if they have.
type cell struct{ apart, overlap int32 }

// The values of designs.md "Job promotion algorithm", in short.
var (
	none = cell{0, 0}   // no contention now or later
	some = cell{3, 3}   // none now; later contention is likelier
	more = cell{5, 5}   // none now; later contention is much likelier
	unkn = cell{15, 15} // the job may have to wait
	stck = cell{30, 30} // the job will very likely have to wait
	somX = cell{3, 30}  // some; stck if both have the same name
	morX = cell{5, 30}
)

// conflicts is the table of designs.md "Job promotion algorithm". Rows are what a pending job wants at a level,
// columns what a running job wants or holds.
var conflicts = [demandKinds][demandKinds]cell{
	//                      Nothing SharedSet UnknownShared AllShared ExclusiveSet UnknownExclusive AllExclusive
	lock.Nothing:          {none, none, none, none, none, none, none},
	lock.SharedSet:        {some, none, none, none, somX, unkn, stck},
	lock.UnknownShared:    {some, some, some, some, unkn, unkn, stck},
	lock.AllShared:        {some, some, some, some, stck, stck, stck},
	lock.ExclusiveSet:     {more, morX, unkn, stck, morX, unkn, stck},
	lock.UnknownExclusive: {more, unkn, unkn, stck, unkn, unkn, stck},
	lock.AllExclusive:     {more, stck, stck, stck, stck, stck, stck},
}

// valueMax is the largest value that a level adds. It is the value for a common name wherever names matter.
const valueMax = 30

// valueOfBigLock is the value of the big lock: the largest value at each of Ganeti's levels. Free locks do not add to it,
// so that weights of jobs without them are Ganeti's.
const valueOfBigLock = valueMax * int32(lock.Levels-1)

// hasNames reports whether a demand of this kind has names.
func hasNames(k lock.DemandKind) bool { return k == lock.SharedSet || k == lock.ExclusiveSet }

// conflictsWith reports whether a demand of kind k for a name conflicts with another job that holds or wants the name
// in mode m.
func conflictsWith(k lock.DemandKind, m lock.Mode) bool {
	return k == lock.ExclusiveSet && m >= lock.Shared || k == lock.SharedSet && m == lock.Exclusive
}
