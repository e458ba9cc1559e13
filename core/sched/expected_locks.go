package sched

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// expectedOwner is what the order Expected knows of an owner that may be in the way of candidates: a job, or another program that holds
// locks or asks for some.
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

// nameClaim is a reference of an owner to a name that it has in the way of others, counted as a shared or an exclusive claim on the name.
type nameClaim struct {
	name int32
	kind lock.DemandKind
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

// claim counts the items that an owner has in the way of others as claims on their names, in place of its former claims. The places of
// groups learn of each name that is less claimed than before.
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

func (x *expected) SetOwnerLocks(o lock.Owner, held []lock.Item, pending lock.Request) {
	o = ownerKey(o)
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

// reachedBy returns how far a list of locks has come in the order of the levels: the highest level in it, and so many levels below, count
// as asked for. The configuration's level does not count.
func reachedBy(items []lock.Item) levelsReached {
	reached := levelsReached(0)
	for _, i := range items {
		if i.Mode != lock.None && i.Lock.Level() != lock.Config {
			reached = max(reached, levelsReached(i.Lock.Level()+1))
		}
	}
	return reached
}

func (x *expected) ForgetOwners() {
	for o := range maps.Clone(x.owners) {
		x.SetOwnerLocks(o, nil, nil)
	}
}

func (x *expected) addRunning(c Candidate) {
	began := begun{class: classOf(c.Expected), priority: clampPriority(c.Priority), reserved: true}
	if c.BeganUs > 0 {
		began.at = time.UnixMicro(c.BeganUs)
	}
	x.began[c.ID] = began
	x.begin(c.ID, c.Declared.Request())
}

func (x *expected) declare(id job.ID, current, _ lock.Declaration) { x.begin(id, current.Request()) }

// begin makes the current opcode of a running job the one with this request.
func (x *expected) begin(id job.ID, request lock.Request) {
	x.edit(jobOwnerKey(id), func(p *expectedOwner) {
		p.running, p.declared, p.granted = true, request, len(p.held) > 0
		p.reached = max(reachedBy(p.held), reachedBy(p.pending))
	})
}

func (x *expected) stop(id job.ID) {
	delete(x.began, id)
	x.edit(jobOwnerKey(id), func(p *expectedOwner) { p.running, p.declared = false, nil })
}

func (x *expected) remove(id job.ID) {
	delete(x.began, id)
	if x.owners[jobOwnerKey(id)] != nil {
		x.edit(jobOwnerKey(id), func(p *expectedOwner) { *p = expectedOwner{claims: p.claims} })
	}
}
