package deadlock

import (
	"maps"
	"slices"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Locks answers who waits for whom because of locks.
type Locks struct {
	held *lock.View
	// pending has the requests of jobs, by owner: a job that was started again is another owner.
	pending map[job.ID]map[lock.Owner]lock.Request
}

// NewLocks returns a view of who holds and asks for which locks, which is empty until Set.
func NewLocks() *Locks {
	return &Locks{held: lock.NewView(lock.Implied), pending: map[job.ID]map[lock.Owner]lock.Request{}}
}

// Set replaces what an owner holds and asks for. The request of a named owner, which is no job, is not kept.
func (l *Locks) Set(r lock.Record) {
	l.held.Set(r.Owner, r.Locks, func(lock.Point) {})
	if r.Owner.Named {
		return
	}
	of := l.pending[r.Owner.Job]
	switch {
	case r.Pending != nil && of == nil:
		l.pending[r.Owner.Job] = map[lock.Owner]lock.Request{r.Owner: r.Pending.Request}
	case r.Pending != nil:
		of[r.Owner] = r.Pending.Request
	default:
		if delete(of, r.Owner); len(of) == 0 {
			delete(l.pending, r.Owner.Job)
		}
	}
}

// Pending are the waits of a job for the other jobs that have the locks for which its processes ask now. An owner of locks that is no job
// gives no wait.
func (l *Locks) Pending(id job.ID) []Wait {
	var waits []Wait
	for _, o := range slices.SortedFunc(maps.Keys(l.pending[id]), lock.Owner.Compare) {
		waits = append(waits, l.Needing(id, lock.RequiredLocks{Request: l.pending[id][o]})...)
	}
	return waits
}

// Needing are the waits of a job for the locks of an opcode, by job. An owner of any-of locks is waited for if too few would be left
// without those that it has.
func (l *Locks) Needing(id job.ID, n lock.RequiredLocks) []Wait {
	var waits []Wait
	add := func(c lock.Conflict) {
		if !c.Owner.Named && c.Owner.Job != id {
			waits = append(waits, Wait{For: Vertex{Job: c.Owner.Job}, By: Lock, Lock: c.Locks[0]})
		}
	}
	for _, c := range l.held.Conflicts(lock.Owner{}, n.Request) {
		add(c)
	}
	for _, c := range l.held.Conflicts(lock.Owner{}, n.AnyOf) {
		if len(n.AnyOf)-len(c.Locks) < n.Count {
			add(c)
		}
	}
	return waits
}
