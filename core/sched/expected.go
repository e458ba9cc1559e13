package sched

import (
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// expected is what only the order Expected needs (doc.go).
//
// Invariants: view has what expectedOwner.items says of each owner. began has the running jobs.
type expected struct {
	places   *places
	view     *lock.View
	owners   map[lock.Owner]*expectedOwner
	waiting  []lock.Owner // owners with a pending request that is not overdue, as far as is known
	began    map[job.ID]begun
	reserved reservations
	now      time.Time
	first    time.Time // the earliest now
	// unfinished: the last pick has examined as many groups as it may, and there are more.
	unfinished bool
	request    lock.Request // scratch
}

// begun is when a running job began, and how long it was then expected to take. A zero time is replaced at the next
// pick. reserved: it had an aged reservation, or may have had one in an earlier State.
type begun struct {
	at       time.Time
	class    durationClass
	priority int32
	reserved bool
}

// expectedOwner is an owner of locks, or a running job.
type expectedOwner struct {
	running  bool
	declared lock.Request // of the current opcode
	held     []lock.Item
	pending  lock.Request
	since    time.Time // when a pick first saw the pending request
	overdue  bool
	reached  levelsReached // by what it has held or asked for since the opcode began
	granted  bool          // it has held something since the opcode began
	claims   []nameClaim   // of items; each has a reference
}

// nameClaim counts among the claims on a name.
type nameClaim struct {
	name int32
	kind lock.DemandKind
}

func newExpected(g *groups) *expected {
	return &expected{places: newPlaces(g), view: lock.NewView(lock.Implied), owners: map[lock.Owner]*expectedOwner{},
		began: map[job.ID]begun{}, reserved: newReservations()}
}

// items are the locks that an owner has in the way of others: what it holds; its pending request, if it is overdue or
// the owner is a running job, which has just been started; and what a running job has declared at levels at which it has
// not asked yet. A job that has released everything has ended its opcode.
func (o *expectedOwner) items() []lock.Item {
	items := slices.Clone(o.held)
	if o.overdue || o.running {
		items = append(items, o.pending...)
	}
	if o.running && (!o.granted || len(o.held) > 0) {
		for _, i := range o.declared {
			if !o.reached.covers(i.Lock.Level()) {
				items = append(items, i)
			}
		}
	}
	return slices.DeleteFunc(items, func(i lock.Item) bool { return i.Mode == lock.None || i.Lock.Level() == lock.Config })
}

// holds reports whether the owner, which keeps the lock from others, does so by what it holds.
func (o *expectedOwner) holds(l lock.Lock) bool {
	return slices.ContainsFunc(o.held, func(i lock.Item) bool {
		held := i.Lock
		return held == l || held == lock.BGL || l == lock.BGL || held.Level() == l.Level() && (held.IsGroup() || l.IsGroup())
	})
}

// edit changes an owner, and opens the places at which groups waited for what it has left.
func (x *expected) edit(o lock.Owner, change func(*expectedOwner)) {
	p := x.owners[o]
	if p == nil {
		p = &expectedOwner{}
		x.owners[o] = p
	}
	change(p)
	items := p.items()
	x.view.Set(o, items, func(at lock.Point) { x.places.openKey(placeKey{point: at}) })
	x.claim(p, items)
	if !p.running && len(p.held)+len(p.pending) == 0 {
		delete(x.owners, o)
	}
}

// claim counts what an owner has in the way of others, by name.
func (x *expected) claim(p *expectedOwner, items []lock.Item) {
	names, former := &x.places.groups.names, p.claims
	p.claims = nil
	for _, i := range items {
		if level := i.Lock.Level(); level != lock.Cluster && !i.Lock.IsGroup() {
			kind := lock.SharedSet
			if i.Mode == lock.Exclusive {
				kind = lock.ExclusiveSet
			}
			c := nameClaim{names.addRef(level, i.Lock.Name()), kind}
			names.countClaims(c.name, c.kind, +1)
			p.claims = append(p.claims, c)
		}
	}
	for _, c := range former {
		was := names.items[c.name].mode()
		names.countClaims(c.name, c.kind, -1)
		if names.items[c.name].mode() < was {
			x.places.nameFreed(c.name)
		}
		names.dropRef(c.name)
	}
}

// setLocks takes the report of the lock manager about an owner.
func (x *expected) setLocks(o lock.Owner, held []lock.Item, pending lock.Request) {
	x.edit(o, func(p *expectedOwner) {
		if !slices.Equal(p.pending, pending) {
			p.since, p.overdue = time.Time{}, false
			if len(pending) > 0 && !slices.Contains(x.waiting, o) {
				x.waiting = append(x.waiting, o)
			}
		}
		p.held, p.pending = held, pending
		p.granted = p.granted || len(held) > 0
		p.reached = max(p.reached, reachedBy(held), reachedBy(pending))
	})
}

// reachedBy is how many levels a list of locks has reached.
func reachedBy(items []lock.Item) levelsReached {
	reached := levelsReached(0)
	for _, i := range items {
		if i.Mode != lock.None && i.Lock.Level() != lock.Config {
			reached = max(reached, levelsReached(i.Lock.Level()+1))
		}
	}
	return reached
}

// begin makes the current opcode of a running job the one with this request.
func (x *expected) begin(id job.ID, request lock.Request) {
	x.edit(jobOwnerKey(id), func(p *expectedOwner) {
		p.running, p.declared, p.granted = true, request, len(p.held) > 0
		p.reached = max(reachedBy(p.held), reachedBy(p.pending))
	})
}

// stop makes a job run no opcode.
func (x *expected) stop(id job.ID) {
	delete(x.began, id)
	x.edit(jobOwnerKey(id), func(p *expectedOwner) { p.running, p.declared = false, nil })
}

// remove forgets a job and its locks.
func (x *expected) remove(id job.ID) {
	delete(x.began, id)
	if x.owners[jobOwnerKey(id)] != nil {
		x.edit(jobOwnerKey(id), func(p *expectedOwner) { *p = expectedOwner{claims: p.claims} })
	}
}

// observe takes the time: requests become overdue.
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

// pickExpected is Pick in the order Expected.
func (s *State) pickExpected(now time.Time) []job.ID {
	x := s.expected
	x.observe(now, s.settings.LockBypass)
	x.unfinished, x.reserved.survey.valid = false, false
	s.openPlaces(false)
	if len(s.running) < s.settings.Slots && !x.places.tellWatchers(tellMax) {
		x.unfinished = true
		return nil
	}
	var picked []job.ID
	for examined := 0; len(s.running) < s.settings.Slots; {
		s.openLimits()
		group := x.places.best()
		bound := int64(noPriority)
		if group != 0 {
			bound = int64(s.groups.bucketOf(group).priority)
		}
		if s.updateReservations(bound) {
			continue // a group that waited for a reservation may precede
		}
		aged, starts := s.agedGroup(bound)
		if aged != 0 {
			group = aged
		}
		if group == 0 {
			break
		}
		if starts {
			picked = append(picked, s.startGroup(group))
			continue
		}
		if examined++; examined > examineMax {
			x.unfinished = true
			break
		}
		if key, blocked := s.blockedBy(group); blocked {
			x.places.park(group, key)
			continue
		}
		picked = append(picked, s.startGroup(group))
	}
	return picked
}

// Unfinished reports whether the last Pick has examined as many groups as it may at a time. The caller calls Pick again.
func (s *State) Unfinished() bool { return s.expected != nil && s.expected.unfinished }

// openLimits computes the full limits, and opens the places of sets that are full no more.
func (s *State) openLimits() {
	l := &s.groups.limits
	if !l.stale {
		return
	}
	l.updateFull()
	s.expected.reserved.survey.valid = false
	s.openPlaces(true)
	for set, full := range l.full {
		if !full && set > 0 {
			s.expected.places.openKey(placeKey{limits: int32(set)})
		}
	}
}

// startGroup makes the first candidate of a group run. Its locks are not free if it is due, or may not be because others
// have not declared theirs.
func (s *State) startGroup(group int32) job.ID {
	g := s.groups
	reserved := slices.ContainsFunc(s.expected.reserved.aged, func(a *reservation) bool { return s.groupOf(a) == group })
	id, b := g.items[group].id, g.bucketOf(group)
	class, priority, request := b.class, b.priority, slices.Clone(s.requestOf(group))
	delete(s.yielded, id)
	s.started(id)
	occupied := g.limits.occupySet(b.limits)
	s.Withdraw(id)
	s.running[id] = occupied
	s.expected.began[id] = begun{s.expected.now, class, priority, reserved}
	s.expected.begin(id, request)
	return id
}

// blockedBy is the place of a group whose first candidate cannot start; false if it can.
func (s *State) blockedBy(group int32) (placeKey, bool) {
	x, b := s.expected, s.groups.bucketOf(group)
	if s.groups.limits.full[b.limits] {
		return placeKey{limits: b.limits}, true
	}
	owner := jobOwnerKey(s.groups.items[group].id)
	if x.owners[owner] == nil { // its own locks do not keep a job from starting
		if key, blocked := s.blockedByName(group); blocked {
			return key, true
		}
	}
	request := s.requestOf(group)
	if at, blocked := x.view.BlockedAt(owner, request); blocked {
		return placeKey{point: at}, true
	}
	return s.heldBack(group, request)
}

// blockedByName is the place of a group of which another owner has a name; false if no other has one. The view of locks
// need not be asked then.
func (s *State) blockedByName(group int32) (placeKey, bool) {
	g := s.groups
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
func (s *State) requestOf(group int32) lock.Request {
	g, x := s.groups, s.expected
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
