package sched

import (
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// expected is the order Expected: only jobs whose locks are free start (doc.go).
type expected struct {
	*situation
	reserved *reservations
	waiting  []lock.Owner // owners with a pending request that is not overdue, as far as is known
	// unfinished: the last pick has examined as many groups as it may, and there are more.
	unfinished bool
}

// situation is what the order Expected and its reservations decide from: candidates with their places, and what running
// jobs and other owners have.
//
// Invariants: view has what expectedOwner.items says of each owner. began has the running jobs.
type situation struct {
	*jobs
	places  *places
	view    *lock.View
	owners  map[lock.Owner]*expectedOwner
	began   map[job.ID]begun
	now     time.Time
	first   time.Time    // the earliest now
	request lock.Request // scratch
}

// begun is when a running job began, and how long it was then expected to take. A zero time is replaced at the next
// pick. reserved: it had an aged reservation, or may have had one in an earlier State.
type begun struct {
	at       time.Time
	class    durationClass
	priority int32
	reserved bool
}

func newExpected(j *jobs) *expected {
	s := &situation{jobs: j, places: newPlaces(j.groups), view: lock.NewView(lock.Implied),
		owners: map[lock.Owner]*expectedOwner{}, began: map[job.ID]begun{}}
	x := &expected{situation: s, reserved: newReservations(s)}
	j.groups.watcher = x.places
	return x
}

func (x *expected) settingsChanged(old Settings) {
	if x.settings.Tick != old.Tick || x.settings.Ageing != old.Ageing {
		x.places.ageing, x.places.tickMs = int64(x.settings.Ageing), x.settings.Tick.Milliseconds()
		x.places.rebuild()
	}
}

func (x *expected) refresh(time.Time) { x.openLimits() }

func (x *expected) rankOf(e *entry, _ demandMask) rank {
	return x.places.rankIn(x.groups.bucketOf(e.group), e)
}

// maskOf returns 0 for every group: in the order Expected ranks do not depend on locks.
func (x *expected) maskOf(int32) demandMask { return 0 }

func (x *expected) classOf(id job.ID, expected time.Duration) (durationClass, bool) {
	return classOf(expected), x.Yielded(id)
}

// observe sets the time, also as the begin of what has begun since the last call. A request that has waited for longer
// than bypass becomes overdue. With a bypass of 0 none does.
func (x *expected) observe(now time.Time, bypass time.Duration) {
	x.now = now
	if x.first.IsZero() {
		x.first = now
	}
	for id, b := range x.began { // the order does not matter
		if b.at.IsZero() {
			b.at = now
			x.began[id] = b
		}
	}
	x.waiting = slices.DeleteFunc(x.waiting, func(o lock.Owner) bool {
		p := x.owners[o]
		if p == nil || len(p.pending) == 0 || p.overdue {
			return true
		}
		if p.since.IsZero() {
			p.since = now
		}
		if bypass <= 0 || now.Sub(p.since) <= bypass {
			return false
		}
		x.edit(o, func(p *expectedOwner) { p.overdue = true })
		return true
	})
}

// A pick examines at most examineMax groups and tells at most tellMax places that a name was freed. Each takes about 2 ms.
const (
	examineMax = 1_000
	tellMax    = 20_000
)

func (x *expected) Pick(now time.Time) []job.ID {
	x.observe(now, x.settings.LockBypass)
	x.unfinished, x.reserved.seen.valid = false, false
	x.reserved.openPlaces(false)
	if len(x.running) < x.settings.Slots && !x.places.tellWatchers(tellMax) {
		x.unfinished = true
		return nil
	}
	var picked []job.ID
	for examined := 0; len(x.running) < x.settings.Slots; {
		x.openLimits()
		group := x.places.best()
		bound := int64(noPriority)
		if group != 0 {
			bound = int64(x.groups.bucketOf(group).priority)
		}
		if x.reserved.updateReservations(bound) {
			continue // a group that waited for a reservation may precede
		}
		aged, starts := x.reserved.agedGroup(bound)
		if aged != 0 {
			group = aged
		}
		if group == 0 {
			break
		}
		if starts {
			picked = append(picked, x.startGroup(group))
			continue
		}
		if examined++; examined > examineMax {
			x.unfinished = true
			break
		}
		if key, blocked := x.blockedBy(group); blocked {
			x.places.park(group, key)
			continue
		}
		picked = append(picked, x.startGroup(group))
	}
	return picked
}

func (x *expected) Unfinished() bool { return x.unfinished }

// openLimits computes the full limits, and opens the places of sets that are full no more.
func (x *expected) openLimits() {
	l := &x.groups.limits
	if !l.stale {
		return
	}
	l.updateFull()
	x.reserved.seen.valid = false
	x.reserved.openPlaces(true)
	for set, full := range l.full {
		if !full && set > 0 {
			x.places.openKey(placeKey{limits: int32(set)})
		}
	}
}

// startGroup makes the first candidate of a group run. Its locks are not free if it is due, or may not be because others
// have not declared theirs.
func (x *expected) startGroup(group int32) job.ID {
	g := x.groups
	reserved := slices.ContainsFunc(x.reserved.aged, func(a *reservation) bool { return x.groups.groupOf(a.id) == group })
	id, b := g.items[group].id, g.bucketOf(group)
	class, priority, request := b.class, b.priority, slices.Clone(x.requestOf(group))
	delete(x.yielded, id)
	x.reserved.started(id)
	occupied := g.limits.occupySet(b.limits)
	x.Withdraw(id)
	x.running[id] = occupied
	x.began[id] = begun{x.now, class, priority, reserved}
	x.begin(id, request)
	return id
}

// blockedBy is the place of a group whose first candidate cannot start; false if it can.
func (x *expected) blockedBy(group int32) (placeKey, bool) {
	b := x.groups.bucketOf(group)
	if x.groups.limits.full[b.limits] {
		return placeKey{limits: b.limits}, true
	}
	owner := jobOwnerKey(x.groups.items[group].id)
	if x.owners[owner] == nil { // its own locks do not keep a job from starting
		if key, blocked := x.blockedByName(group); blocked {
			return key, true
		}
	}
	request := x.requestOf(group)
	if at, blocked := x.view.BlockedAt(owner, request); blocked {
		return placeKey{point: at}, true
	}
	return x.reserved.heldBack(group, request)
}

// blockedByName is the place of a group of which another owner has a name; false if no other has one. The view of locks
// need not be asked then.
func (x *expected) blockedByName(group int32) (placeKey, bool) {
	g := x.groups
	shape := g.items[group].shape
	if g.bucketOf(group).mask&bigLock != 0 {
		return placeKey{}, false // it asks for no names
	}
	if name := g.blockingShape(shape); name != 0 {
		if g.bucketOf(group).continues || g.shapes.items[shape].groups == 1 {
			return placeKey{name: name}, true
		}
		return placeKey{shape: shape}, true
	}
	if name := g.blockingIn(g.items[group].names, g.bucketOf(group).mask); name != 0 {
		return placeKey{name: name}, true
	}
	return placeKey{}, false
}

// requestOf is the request for the first opcode of a group's jobs, valid until the next call.
func (x *situation) requestOf(group int32) lock.Request {
	g := x.groups
	mask := g.bucketOf(group).mask
	x.request = x.request[:0]
	if mask&bigLock != 0 {
		x.request = append(x.request, lock.Item{Lock: lock.BGL, Mode: lock.Exclusive})
		return x.request
	}
	var d lock.Declaration
	for k := range d.Demands {
		if kind := mask.kind(k); !hasNames(kind) {
			d.Demands[k].Kind = kind
		}
	}
	x.request = d.AppendRequest(x.request)
	if len(x.request) == 0 && (g.items[group].names != 0 || g.shapes.items[g.items[group].shape].first[0] != 0) {
		x.request = append(x.request, lock.Item{Lock: lock.BGL, Mode: lock.Shared})
	}
	for name := range g.namesOf(group) {
		n := &g.names.items[name]
		mode := lock.Shared
		if mask.kind(levelNumber(n.level)) == lock.ExclusiveSet {
			mode = lock.Exclusive
		}
		x.request = append(x.request, lock.Item{Lock: lock.Member(n.level, n.text), Mode: mode})
	}
	return x.request
}
