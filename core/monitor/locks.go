package monitor

import (
	"cmp"
	"slices"
	"time"

	"lockstep/core/lock"
)

// LockReport is what the collector "locks" reports. On a node without the lock manager it has only status and role.
type LockReport struct {
	Status Status `json:"status"`
	Role   Role   `json:"role"`
	*LockDetails
}

// LockDetails are the part of a LockReport that is known only where the lock manager runs. Totals count since the start of the daemon.
type LockDetails struct {
	Held        HeldLocks `json:"held"`
	Pending     int       `json:"pending"`              // owners that wait
	LongestWait float64   `json:"longest_wait_seconds"` // of the owners that wait now; 0: none waits
	LongestHeld float64   `json:"longest_held_seconds"` // 0: no lock is held
	// Holder is the owner that has held locks for longest: the id of a job, or a name; null: no lock is held, or it is secret.
	Holder     any      `json:"holder"`
	Granted    int64    `json:"granted_total"`
	Waiters    [][4]any `json:"waiters"` // the ten that wait for longest: lock, mode, job or name, seconds
	DeadOwners int64    `json:"dead_owners_total"`
	// Waits are the times that owners have waited. The report does not have them.
	Waits Histogram `json:"-"`
}

// HeldLocks are numbers of held locks by mode. A lock that several owners share counts for each.
type HeldLocks struct {
	Exclusive int64 `json:"exclusive"`
	Shared    int64 `json:"shared"`
}

// Limits beyond which a report is not fine.
const (
	lockWaitLimit  = 5 * time.Minute
	deadOwnerLimit = 30 * time.Second // for the locks of a dead owner to stay
	waitersMax     = 10
)

// Locks makes reports about locks from the records of owners that the lock manager publishes.
type Locks struct {
	known   bool
	owners  map[lock.Owner]*lockOwner
	dead    map[lock.Owner]time.Time // since when owners with locks are dead
	details LockDetails
}

// lockOwner is what the tracker knows of an owner: how many locks it holds and since when, and what it waits for.
type lockOwner struct {
	exclusive, shared int64
	heldSince         time.Time  // with held locks
	wants             *lock.Item // the first lock that it waits for; nil: it does not wait
	waitsSince        time.Time
}

func (o *lockOwner) held() int64 { return o.exclusive + o.shared }

// NewLocks returns what makes reports about locks. It knows no owners until Changed.
func NewLocks() *Locks {
	return &Locks{owners: map[lock.Owner]*lockOwner{}, dead: map[lock.Owner]time.Time{}, details: LockDetails{Waits: NewWaits()}}
}

// Forget drops what is known of all owners, until Changed gets all of them again. Totals stay.
func (l *Locks) Forget() {
	l.known = false
	clear(l.owners)
	clear(l.dead)
	l.details.Held, l.details.Pending = HeldLocks{}, 0
}

// Changed takes the records of owners whose locks or requests have changed. complete: there are no other owners. The first records must
// be complete; others before them are dropped.
func (l *Locks) Changed(now time.Time, records []lock.Record, complete bool) {
	if complete {
		listed := map[lock.Owner]bool{}
		for _, r := range records {
			listed[r.Owner] = true
		}
		for o := range l.owners {
			if !listed[o] {
				l.change(now, lock.Record{Owner: o}, true)
			}
		}
	}
	if !l.known && !complete {
		return // all records come
	}
	for _, r := range records {
		l.change(now, r, !l.known)
	}
	l.known = true
}

// change takes one record in place of the former one of its owner. silent: what it says has happened at an unknown time, and is not
// counted in the totals of grants and waits.
func (l *Locks) change(now time.Time, r lock.Record, silent bool) {
	before := l.owners[r.Owner]
	if before == nil {
		before = &lockOwner{}
	}
	after := &lockOwner{heldSince: before.heldSince, waitsSince: before.waitsSince}
	for _, item := range r.Locks {
		if item.Mode == lock.Exclusive {
			after.exclusive++
		} else {
			after.shared++
		}
	}
	if r.Pending != nil && len(r.Pending.Request) > 0 {
		after.wants = &r.Pending.Request[0]
	}
	if before.held() == 0 {
		after.heldSince = now
	}
	if before.wants == nil {
		after.waitsSince = now
	}
	l.details.Held.Exclusive += after.exclusive - before.exclusive
	l.details.Held.Shared += after.shared - before.shared
	l.details.Pending += count(after.wants) - count(before.wants)
	waitOver := before.wants != nil && after.wants == nil
	if grew := after.held() > before.held(); !silent && (grew || waitOver && after.exclusive > before.exclusive) {
		l.details.Granted++
	}
	if !silent && waitOver {
		l.details.Waits.Observe(max(0, now.Sub(before.waitsSince).Seconds()))
	}
	if l.owners[r.Owner] = after; after.held() == 0 && after.wants == nil {
		delete(l.owners, r.Owner)
		delete(l.dead, r.Owner)
	}
}

func count(wants *lock.Item) int {
	if wants == nil {
		return 0
	}
	return 1
}

// Died counts owners whose processes have died. The lock manager frees their locks in a moment.
func (l *Locks) Died(now time.Time, owners []lock.Owner) {
	for _, o := range owners {
		if _, known := l.dead[o]; known {
			continue
		}
		l.details.DeadOwners++
		if l.owners[o] != nil {
			l.dead[o] = now
		}
	}
}

// Report returns the report about locks at a time, for a node with this role. A node that does not run the queue reports only its role,
// and a queue whose locks are not known only that.
func (l *Locks) Report(now time.Time, role Role) LockReport {
	r := LockReport{Role: role}
	if !role.RunsQueue() {
		r.Role = Follower
		return r
	}
	if !l.known {
		r.Status.worsen(Unknown, "the lock manager has not started yet")
		return r
	}
	d := l.details
	d.Waits = l.details.Waits.Clone()
	d.Waiters = [][4]any{}
	type waiter struct {
		owner lock.Owner
		*lockOwner
	}
	var waiters []waiter
	var holder *waiter
	for o, is := range l.owners {
		w := waiter{o, is}
		if is.wants != nil {
			waiters = append(waiters, w)
		}
		if is.held() > 0 && (holder == nil || cmp.Or(is.heldSince.Compare(holder.heldSince), o.Compare(holder.owner)) < 0) {
			holder = &w
		}
	}
	slices.SortFunc(waiters, func(a, b waiter) int { return cmp.Or(a.waitsSince.Compare(b.waitsSince), a.owner.Compare(b.owner)) })
	for _, w := range waiters[:min(len(waiters), waitersMax)] {
		d.Waiters = append(d.Waiters, [4]any{w.wants.Lock.String(), w.wants.Mode.String(), identity(w.owner), seconds(now, w.waitsSince)})
	}
	if len(waiters) > 0 {
		d.LongestWait = seconds(now, waiters[0].waitsSince)
	}
	if holder != nil {
		d.LongestHeld, d.Holder = seconds(now, holder.heldSince), identity(holder.owner)
	}
	if d.LongestWait > lockWaitLimit.Seconds() {
		r.Status.worsen(Repairs, "an owner has waited for locks for more than %v", lockWaitLimit)
	}
	for _, since := range l.dead {
		if now.Sub(since) > deadOwnerLimit {
			r.Status.worsen(NeedsYou, "an owner of locks is dead, and its locks are still held")
			break
		}
	}
	r.LockDetails = &d
	return r
}

// identity is the id of a job, or the name of another owner.
func identity(o lock.Owner) any {
	if o.Named {
		return o.Name
	}
	return int64(o.Job)
}

func seconds(now, since time.Time) float64 { return max(0, now.Sub(since).Seconds()) }

// Data encodes the report for clients. The part for clients without a login names neither locks nor owners.
func (r LockReport) Data() Data {
	public := r
	if r.LockDetails != nil {
		hidden := *r.LockDetails
		hidden.Holder, hidden.Waiters = nil, [][4]any{}
		public.LockDetails = &hidden
	}
	return Data{Full: r, Public: public, Code: r.Status.Code}
}
