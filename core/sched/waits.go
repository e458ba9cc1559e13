package sched

import (
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// waits is about jobs that wait because their locks are not free. Only the order Expected looks at locks before a start.
type waits interface {
	// Unfinished reports whether the last Pick has examined as many groups as it may at a time. The caller calls Pick again.
	Unfinished() bool
	// Wake is when Pick is to be called although nothing changes: a job is due then, or past ReserveAfter. The zero time: at
	// no time.
	Wake() time.Time
	// GivesSlotBack reports whether a running job, which is about to begin its next opcode, gives its slot and its limits back:
	// because it cannot get its locks now, or because a job that is due needs the slot, the locks, or a place in a limit. At
	// most as many processes as slots do without one. What a job had reserved was for the opcode before.
	GivesSlotBack(c Candidate, now time.Time) bool
	// HadReservation reports whether a running job was started with an aged reservation, or may have been before a restart.
	HadReservation(id job.ID) bool
	// MarkBlocked marks candidates that only locks or a reservation keep from starting, and returns them. They are marked in
	// the order of their starts, while processes and marks together leave a run slot and a place in each limit. The caller
	// has just called Pick. A mark lasts until Withdraw, Remove or the start of the job.
	//
	// The cost depends on the numbers of buckets and of run slots, and not on the number of candidates.
	MarkBlocked() []job.ID

	// AllLocks is the locks of all owners, by owner.
	AllLocks() []OwnerLocks
	// Blockers are the owners whose locks keep a job from those that it declares.
	Blockers(id job.ID, d lock.Declaration) []lock.Owner
	// BlockedByLocks are those of the first lookMax candidates that cannot get their locks now.
	BlockedByLocks(lookMax int, now time.Time) []BlockedJob
	// MarkedByLocks are the marked candidates that cannot get their locks now. Wanted are those of the locks that others keep
	// from them.
	MarkedByLocks() []BlockedJob
}

// OwnerLocks is the locks of an owner, as SetOwnerLocks took them.
type OwnerLocks struct {
	Owner   lock.Owner
	Held    []lock.Item
	Pending lock.Request
}

// BlockedJob is a candidate that cannot get its locks now, with its request and its blockers as in Explanation.
type BlockedJob struct {
	ID        job.ID
	Priority  int32
	Wanted    lock.Request
	BlockedBy []Blocker
}

// noWaits is the answer of an order that starts jobs whether or not their locks are free: a job waits for locks in its
// slot, and nothing is reserved or marked.
type noWaits struct{}

func (noWaits) Unfinished() bool                               { return false }
func (noWaits) Wake() time.Time                                { return time.Time{} }
func (noWaits) GivesSlotBack(Candidate, time.Time) bool        { return false }
func (noWaits) HadReservation(job.ID) bool                     { return false }
func (noWaits) MarkBlocked() []job.ID                          { return nil }
func (noWaits) AllLocks() []OwnerLocks                         { return nil }
func (noWaits) Blockers(job.ID, lock.Declaration) []lock.Owner { return nil }
func (noWaits) BlockedByLocks(int, time.Time) []BlockedJob     { return nil }
func (noWaits) MarkedByLocks() []BlockedJob                    { return nil }
