package sched

import (
	"iter"
	"maps"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// ClaimKind is how an active owner relates to a lock.
type ClaimKind uint8

const (
	// Holds: the lock manager has granted the lock.
	Holds ClaimKind = iota
	// Awaits: the lock manager has a pending request for the lock.
	Awaits
	// Expects: the declaration of the current opcode contains the lock.
	Expects
	// Later: the declaration of a later opcode of the job contains the lock.
	Later
)

func (h ClaimKind) String() string { return [...]string{"holds", "awaits", "expects", "later"}[h] }

// claim is one thing that candidates are compared with: a kind of demand at a level, with one name if the kind has
// names. The big lock, exclusively, is a claim at level Cluster.
type claim struct {
	name   int32 // a reference, or 0
	level  lock.Level
	demand lock.DemandKind
	kind   ClaimKind
}

// activeOwner is a running job, or any other owner that holds or awaits locks.
//
// For the levels that the current opcode has reached, the lock manager's state counts, because locks are asked for in
// the order of levels. For later levels, and until the opcode has asked at all, its declaration counts. A level stays
// reached until the opcode ends, even if its locks are released early. What later opcodes declare always counts.
//
// Invariant: an activeOwner exists if it runs, or holds or awaits something now. One that does not run declares
// nothing, and counts only at levels where it has claims. A running job also counts at a level where it wants nothing
// (column Nothing).
type activeOwner struct {
	running                bool
	current                []claim
	later                  []claim
	actual                 []claim
	reachedNow, reachedMax levelsReached // now, from the held and awaited locks; and at most since the opcode began
}

// levelsReached is a number of levels: the opcode has asked for the locks of all levels below it.
type levelsReached uint8

func (r levelsReached) covers(l lock.Level) bool { return l < lock.Level(r) }

// claims are the claims by which an owner of locks contends with candidates: for the locks that it holds or waits for, for those that its
// current opcode declares at levels that it has not reached, and for those of its later opcodes.
func (p *activeOwner) claims() iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for _, c := range p.actual {
			if !yield(c) {
				return
			}
		}
		for _, c := range p.current {
			if !p.reachedMax.covers(c.level) && !yield(c) {
				return
			}
		}
		for _, c := range p.later {
			if !yield(c) {
				return
			}
		}
	}
}

// contention is the claims of all active owners, without names: how many there are of each kind at each level, and on
// the big lock.
type contention struct {
	counts  [lock.Levels][demandKinds]int32
	bigLock int32
}

// addContention adds the claims of an owner to the contention, or subtracts them if by is -1.
func (w *weights) addContention(p *activeOwner, by int32) {
	var claimed [lock.Levels]bool
	for c := range p.claims() {
		if c.level == lock.Cluster {
			w.contention.bigLock += by
			continue
		}
		k := levelNumber(c.level)
		claimed[k] = true
		w.contention.counts[k][c.demand] += by
		if c.name != 0 {
			w.groups.names.countClaims(c.name, c.demand, by)
		}
	}
	for k := range claimed {
		if p.running && !claimed[k] {
			w.contention.counts[k][lock.Nothing] += by
		}
	}
}

// levelNumber is the number of a level of which declarations speak.
func levelNumber(level lock.Level) int {
	k, _ := level.Demanded()
	return k
}

// updateOwner edits an active owner. It adds the owner if it is new, and removes it when its invariant no longer holds.
func (w *weights) updateOwner(owner lock.Owner, edit func(*activeOwner)) {
	p := w.owners[owner]
	if p == nil {
		p = &activeOwner{}
		w.owners[owner] = p
	}
	w.addContention(p, -1)
	edit(p)
	w.addContention(p, +1)
	if !p.running && p.reachedNow == 0 {
		delete(w.owners, owner)
	}
}

// replaceClaims drops the references of the former claims. The new claims must have their references already.
func (w *weights) replaceClaims(claims *[]claim, by []claim) {
	for _, c := range *claims {
		if c.name != 0 {
			w.groups.names.dropRef(c.name)
		}
	}
	*claims = by
}

// declaredClaims turns what an opcode declares into claims, one for each name, or one for a level without names. Each claim with a name
// has a reference to that name.
func (w *weights) declaredClaims(d *lock.Declaration, kind ClaimKind) []claim {
	var claims []claim
	if d.BGL {
		claims = append(claims, claim{level: lock.Cluster, demand: lock.AllExclusive, kind: kind})
	}
	for k, want := range d.Demands {
		c := claim{level: lock.DemandLevel(k), demand: want.Kind, kind: kind}
		switch {
		case want.Kind == lock.Nothing:
		case hasNames(want.Kind):
			for _, text := range want.Names {
				c.name = w.groups.names.addRef(c.level, text)
				claims = append(claims, c)
			}
		default:
			claims = append(claims, c)
		}
	}
	return claims
}

// groupClaims is declaredClaims for what a group declares. Each name in the claims has one more reference.
func (w *weights) groupClaims(group int32) []claim {
	g := w.groups
	mask := g.buckets.items[g.items[group].bucket].mask
	var d lock.Declaration
	d.BGL = mask&bigLock != 0
	for k := range d.Demands {
		if demand := mask.kind(k); !hasNames(demand) {
			d.Demands[k].Kind = demand
		}
	}
	claims := w.declaredClaims(&d, Expects)
	for name := range g.namesOf(group) {
		n := &g.names.items[name]
		n.refs++
		claims = append(claims, claim{name, n.level, mask.kind(levelNumber(n.level)), Expects})
	}
	return claims
}

// actualClaims are the claims for items that are held or asked for. It ignores releases, and ConfigLock, which is held
// within single calls only.
func (w *weights) actualClaims(claims []claim, items []lock.Item, kind ClaimKind) ([]claim, levelsReached) {
	reached := levelsReached(0)
	for _, i := range items {
		level := i.Lock.Level()
		if level == lock.Config || i.Mode == lock.None {
			continue
		}
		reached = max(reached, levelsReached(level+1))
		c := claim{level: level, kind: kind}
		switch {
		case level == lock.Cluster:
			c.demand = lock.AllExclusive
			if i.Mode == lock.Shared {
				continue
			}
		case i.Lock.IsGroup():
			c.demand = [...]lock.DemandKind{lock.Shared: lock.AllShared, lock.Exclusive: lock.AllExclusive}[i.Mode]
		default:
			c.demand = [...]lock.DemandKind{lock.Shared: lock.SharedSet, lock.Exclusive: lock.ExclusiveSet}[i.Mode]
			c.name = w.groups.names.addRef(level, i.Lock.String()[len(level.String())+1:])
		}
		claims = append(claims, c)
	}
	return claims, reached
}

// ownerKey identifies a job by its id only, not by its process, and any other owner by all parts.
func ownerKey(o lock.Owner) lock.Owner {
	if o.Named {
		return o
	}
	return lock.Owner{Job: o.Job}
}

func jobOwnerKey(id job.ID) lock.Owner { return lock.Owner{Job: id} }

func (w *weights) SetOwnerLocks(o lock.Owner, held []lock.Item, pending lock.Request) {
	w.updateOwner(ownerKey(o), func(p *activeOwner) {
		claims, heldReach := w.actualClaims(nil, held, Holds)
		claims, pendingReach := w.actualClaims(claims, pending, Awaits)
		w.replaceClaims(&p.actual, claims)
		p.reachedNow = max(heldReach, pendingReach)
		p.reachedMax = max(p.reachedMax, p.reachedNow)
		if p.reachedNow == 0 {
			p.reachedMax = 0 // an opcode has ended
		}
	})
}

func (w *weights) declare(id job.ID, current, later lock.Declaration) {
	w.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		current, later := w.declaredClaims(&current, Expects), w.declaredClaims(&later, Later)
		w.replaceClaims(&p.current, current)
		w.replaceClaims(&p.later, later)
		p.reachedMax = p.reachedNow
	})
}

func (w *weights) ForgetOwners() {
	for o := range maps.Clone(w.owners) {
		w.SetOwnerLocks(o, nil, nil)
	}
}

func (w *weights) addRunning(c Candidate) { w.begin(c.ID, w.declaredClaims(&c.Declared, Expects)) }

// begin makes a job run with the declaration of its current opcode.
func (w *weights) begin(id job.ID, current []claim) {
	w.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		p.running, p.current, p.reachedMax = true, current, p.reachedNow
	})
}

func (w *weights) stop(id job.ID) {
	w.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		p.running = false
		w.replaceClaims(&p.current, nil)
		w.replaceClaims(&p.later, nil)
	})
}

func (w *weights) remove(id job.ID) {
	if w.owners[jobOwnerKey(id)] == nil {
		return
	}
	w.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		w.replaceClaims(&p.current, nil)
		w.replaceClaims(&p.later, nil)
		w.replaceClaims(&p.actual, nil)
		*p = activeOwner{}
	})
}
