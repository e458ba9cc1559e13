package sched

import (
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// order is one of the orders of candidates of one priority. It chooses who starts, and keeps what its choice depends on
// beside the jobs: which locks active owners have and will want. There are two: expected, and weights, which is also the
// plain one.
type order interface {
	ranking
	claimBook
	waits

	// Pick gives the free slots to the first jobs in the order, one after the other, and returns these. Each is compared
	// with those picked before it. If no slot is free, Pick examines nothing.
	Pick(now time.Time) []job.ID
	// explain adds why a candidate waits in this order. The caller has called refresh.
	explain(to *Explanation, e *entry, now time.Time)
	// settingsChanged is called after a change, with the former settings.
	settingsChanged(old Settings)
}

// ranking is an order of candidates: by it a pick chooses among those that may start.
type ranking interface {
	// classOf is what candidates of one group have in common in this order only.
	classOf(id job.ID, expected time.Duration) (class durationClass, continues bool)
	// refresh computes what ranks and full limits depend on beside the candidates.
	refresh(now time.Time)
	// rankOf is the rank of a candidate whose group has the given mask.
	rankOf(e *entry, mask demandMask) rank
	// maskOf is the mask of a group that ranks depend on: the present one, or none.
	maskOf(group int32) demandMask
}

// claimBook is told which locks active owners have and will want.
type claimBook interface {
	// addRunning adds the declaration of a job that was found running.
	addRunning(c Candidate)
	// declare sets what a running job declares for its current opcode and for the later ones.
	declare(id job.ID, current, later lock.Declaration)
	// stop removes the declarations of a job that ran. Its locks remain.
	stop(id job.ID)
	// remove removes the declarations and the locks of a job.
	remove(id job.ID)
	// SetOwnerLocks sets the locks that an owner holds and its pending request, as the lock manager reports them. It
	// replaces what was set before.
	SetOwnerLocks(o lock.Owner, held []lock.Item, pending lock.Request)
	// ForgetOwners drops what was set for all owners. The lock manager then reports all of them again.
	ForgetOwners()
}

// rank is the key by which two jobs are compared: first the priority, then the score, then the id; the smaller one goes first.
type rank struct {
	priority int32
	score    int64 // what the order says: the score, the weight, or nothing
	id       job.ID
}

func (r rank) before(p rank) bool {
	if r.priority != p.priority {
		return r.priority < p.priority
	}
	if r.score != p.score {
		return r.score < p.score
	}
	return r.id < p.id
}
