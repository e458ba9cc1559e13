package sched

import (
	"iter"
	"maps"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// How is the way in which a party of the running side is concerned with a lock.
type How uint8

const (
	// Holds it, says the lock manager.
	Holds How = iota
	// Awaits it, says the lock manager.
	Awaits
	// Expects to ask for it with the opcode at hand, says its declaration.
	Expects
	// Later opcodes of the job do, says their declaration.
	Later
)

func (h How) String() string { return [...]string{"holds", "awaits", "expects", "later"}[h] }

// claim is one thing of the running side that candidates are compared with: a
// kind at a level, with one name if there are names to it. The big lock,
// exclusively, is a claim at level Cluster.
type claim struct {
	name  int32 // a reference, or 0
	level lock.Level
	known lock.Knowledge
	how   How
}

// party is a running job, or anybody else who holds or wants locks.
//
// The real state speaks for the levels that the job has reached with the opcode
// at hand, for levels are asked for in order; beyond them, and as long as it has
// not asked at all, the declaration does. What has been reached stays so until
// the opcode ends: a level whose locks are freed early is no longer ahead. What
// later opcodes declare always counts.
//
// Invariant: a party is known if it runs, or holds or awaits something now. One
// that does not run declares nothing, and is no party at levels where it has no
// claims: of a running job, that it wants nothing counts too (column Nothing).
type party struct {
	runs         bool
	atHand       []claim
	later        []claim
	real         []claim
	now, reached reach // now by what is real, and at most since the opcode began
}

// reach is how far an opcode has got: all levels below it, in the order in which
// they are taken, are its lock manager's business.
type reach uint8

func (r reach) covers(l lock.Level) bool { return l < lock.Level(r) }

// claims are those that count.
func (p *party) claims() iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for _, c := range p.real {
			if !yield(c) {
				return
			}
		}
		for _, c := range p.atHand {
			if !p.reached.covers(c.level) && !yield(c) {
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

// load is the running side, as far as it does not depend on names: how many
// claims there are of each kind at each level, and on the big lock.
type load struct {
	present [lock.Levels][kinds]int32
	bigLock int32
}

// weigh adds what a party claims to the load, or takes it away.
func (s *State) weigh(p *party, by int32) {
	var claimed [lock.Levels]bool
	for c := range p.claims() {
		if c.level == lock.Cluster {
			s.load.bigLock += by
			continue
		}
		k := int(c.level - lock.Instance)
		claimed[k] = true
		s.load.present[k][c.known] += by
		if c.name != 0 {
			s.groups.names.count(c.name, c.known, by)
		}
	}
	for k := range claimed {
		if p.runs && !claimed[k] {
			s.load.present[k][lock.Nothing] += by
		}
	}
}

// change changes a party, which may become known or be forgotten by it.
func (s *State) change(who lock.Owner, how func(*party)) {
	p := s.parties[who]
	if p == nil {
		p = &party{}
		s.parties[who] = p
	}
	s.weigh(p, -1)
	how(p)
	s.weigh(p, +1)
	if !p.runs && p.now == 0 {
		delete(s.parties, who)
	}
}

// replace gives up the claims that were there, after those that come have taken
// their references.
func (s *State) replace(claims *[]claim, by []claim) {
	for _, c := range *claims {
		if c.name != 0 {
			s.groups.names.drop(c.name)
		}
	}
	*claims = by
}

// declared are the claims of a declaration.
func (s *State) declared(d *lock.Declaration, how How) []claim {
	var claims []claim
	if d.BGL {
		claims = append(claims, claim{level: lock.Cluster, known: lock.AllExclusive, how: how})
	}
	for k, w := range d.Wants {
		c := claim{level: lock.Instance + lock.Level(k), known: w.Known, how: how}
		switch {
		case w.Known == lock.Nothing:
		case named(w.Known):
			for _, text := range w.Names {
				c.name = s.groups.names.refer(c.level, text)
				claims = append(claims, c)
			}
		default:
			claims = append(claims, c)
		}
	}
	return claims
}

// declaredBy is declared for what a group declares.
func (s *State) declaredBy(group int32) []claim {
	g := s.groups
	look := g.lanes.all[g.all[group].lane].look
	var d lock.Declaration
	d.BGL = look&bigLock != 0
	for k := range d.Wants {
		if known := look.kind(k); !named(known) {
			d.Wants[k].Known = known
		}
	}
	claims := s.declared(&d, Expects)
	for name := range g.names.of(g.all[group].links) {
		n := &g.names.all[name]
		n.refs++
		claims = append(claims, claim{name, n.level, look.kind(int(n.level - lock.Instance)), Expects})
	}
	return claims
}

// real are the claims for items that are held, or asked for. Releases and
// ConfigLock, which comes and goes within calls, are nobody's concern.
func (s *State) real(claims []claim, items []lock.Item, how How) ([]claim, reach) {
	reached := reach(0)
	for _, i := range items {
		level := i.Lock.Level()
		if level > lock.Network || i.Mode == lock.None {
			continue
		}
		reached = max(reached, reach(level+1))
		c := claim{level: level, how: how}
		switch {
		case level == lock.Cluster:
			c.known = lock.AllExclusive
			if i.Mode == lock.Shared {
				continue
			}
		case i.Lock.IsGroup():
			c.known = [...]lock.Knowledge{lock.Shared: lock.AllShared, lock.Exclusive: lock.AllExclusive}[i.Mode]
		default:
			c.known = [...]lock.Knowledge{lock.Shared: lock.SharedSet, lock.Exclusive: lock.ExclusiveSet}[i.Mode]
			c.name = s.groups.names.refer(level, i.Lock.String()[len(level.String())+1:])
		}
		claims = append(claims, c)
	}
	return claims, reached
}

// partyOf names a job whichever of its processes is meant, and anybody else fully.
func partyOf(o lock.Owner) lock.Owner {
	if o.Named {
		return o
	}
	return lock.Owner{Job: o.Job}
}

func jobParty(id job.ID) lock.Owner { return lock.Owner{Job: id} }

// SetHeld tells what the lock manager knows of an owner: what it holds, and the
// request that waits. It replaces what was told before.
func (s *State) SetHeld(o lock.Owner, held []lock.Item, pending lock.Request) {
	s.change(partyOf(o), func(p *party) {
		claims, heldTo := s.real(nil, held, Holds)
		claims, pendingTo := s.real(claims, pending, Awaits)
		s.replace(&p.real, claims)
		p.now = max(heldTo, pendingTo)
		p.reached = max(p.reached, p.now)
		if p.now == 0 {
			p.reached = 0 // an opcode has ended
		}
	})
}

// SetDeclared tells what a running job's opcode at hand is expected to ask for,
// and what those after it are. Until then, what the job was picked with counts as
// the opcode at hand's. For a job that does not run it does nothing.
func (s *State) SetDeclared(id job.ID, atHand, later lock.Declaration) {
	if _, runs := s.running[id]; !runs {
		return
	}
	s.change(jobParty(id), func(p *party) {
		atHand, later := s.declared(&atHand, Expects), s.declared(&later, Later)
		s.replace(&p.atHand, atHand)
		s.replace(&p.later, later)
		p.reached = p.now
	})
}

// ForgetOwners: the lock manager is about to tell of all owners anew.
func (s *State) ForgetOwners() {
	for o := range maps.Clone(s.parties) {
		s.SetHeld(o, nil, nil)
	}
}
