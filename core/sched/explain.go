package sched

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Explanation explains why a candidate does not run yet.
type Explanation struct {
	// Running of Slots slots are taken: none is free if Running >= Slots.
	Running, Slots int
	// FullLimits are the limits that keep the job, by key.
	FullLimits []FullLimit
	// Position is the place among all candidates, those that limits keep too, as
	// things are now: each pick changes the weights. With Beyond it is at least that.
	Position          int
	PositionIsMinimum bool

	// AgeTicks is what the job's age counts for, which may be more than it is if
	// the clock was set back. It goes on beyond K.
	AgeTicks int64

	// Predictive tells whether what follows matters; without, it is zero.
	Predictive bool
	// BGL: the job wants the big lock, and weighs the most whatever runs.
	BGL bool
	// StaticWeight is the weight before ageing, and Weight after.
	StaticWeight, Weight float64
	// Causes make Static what it is beyond the base value: one for each level that
	// adds to it, in the order of levels. If somebody has or will have the big
	// lock, that is the only one.
	Causes []Cause
}

// FullLimit is a limit, and how many running jobs carry it.
type FullLimit struct {
	Limit
	Running int
}

// Cause is what a level adds to the weight, and because of whom.
type Cause struct {
	Level lock.Level
	Value float64
	// Demand is what the job wants at the level, Owner the first of those that are
	// most in its way, and Others how many more of these there are.
	Demand      lock.DemandKind
	Owner       lock.Owner
	OtherOwners int
	// ClaimKind the owner is concerned with Known of the level; with Lock, if names
	// belong to that. Of one that wants nothing there Known is lock.Nothing: the
	// job would add to the contention.
	ClaimKind ClaimKind
	Claimed   lock.DemandKind
	Lock      lock.Lock
}

// Explain explains a candidate's place. It looks at no more than so many of those who may go before it.
func (s *State) Explain(id job.ID, now time.Time, lookMax int) (Explanation, bool) {
	at := s.groups.entryOf(id)
	if at == 0 {
		return Explanation{}, false
	}
	s.refresh(now)
	e := &s.groups.entries.items[at]
	b, mask := &s.groups.buckets.items[s.groups.items[e.group].bucket], s.groups.currentMask(e.group)
	w := Explanation{
		Running: len(s.running), Slots: s.settings.Slots,
		FullLimits: s.groups.limits.fullOf(b.limits),
		AgeTicks:   max(s.weights.now-e.arrivalTick, 0), Predictive: s.settings.Predictive,
	}
	w.Position, w.PositionIsMinimum = s.position(e, lookMax)
	if !w.Predictive {
		return w, true
	}
	w.BGL = mask&bigLock != 0
	w.StaticWeight = float64(s.weights.staticWeight(mask)) / 10
	w.Weight = float64(s.weights.weight(mask, e.arrivalTick)) / float64(10*s.weights.k)
	if !w.BGL {
		w.Causes = s.causes(e.group, mask)
	}
	return w, true
}

func (l *limits) fullOf(set int32) []FullLimit {
	if set == 0 {
		return nil
	}
	var full []FullLimit
	for _, g := range l.sets.items[set].bounds {
		if g.full() {
			full = append(full, FullLimit{Limit{g.key, g.n}, g.running})
		}
	}
	return full
}

// position is one more than how many go before. It ends when it has looked at so many.
func (s *State) position(of *entry, lookMax int) (position int, isMinimum bool) {
	a := positionSearch{State: s, own: s.orderOf(of, s.groups.currentMask(of.group)), budget: lookMax, position: 1}
	for _, at := range s.groups.buckets.live {
		l := &s.groups.buckets.items[at]
		if l.priority <= a.own.priority {
			a.countBucket(l, s.groups.bucketMask(l))
		}
	}
	return a.position, a.budget < 0
}

// positionSearch counts who goes before a candidate. In the heaps of lanes and of groups those who go last are farthest from the root,
// so a branch ends at the first who does not go before it.
type positionSearch struct {
	*State
	own      order
	budget   int // to look at; negative: there may be more
	position int
}

// countBucket counts in the groups of a lane, whose names are known to be in the way.
func (a *positionSearch) countBucket(b *bucket, mask demandMask) {
	stack := []int{0}
	for len(stack) > 0 && a.budget >= 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if i >= len(b.heap) || !a.orderOf(a.groups.rootOf(b.heap[i]), mask).before(a.own) {
			continue
		}
		a.budget--
		a.countGroup(b.heap[i])
		stack = append(stack, 2*i+1, 2*i+2)
	}
}

// countGroup counts in one group.
func (a *positionSearch) countGroup(group int32) {
	mask, e := a.groups.currentMask(group), a.groups.entries.items
	stack := []int32{a.groups.items[group].root}
	for len(stack) > 0 && a.budget >= 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if at != 0 && a.orderOf(&e[at], mask).before(a.own) {
			a.budget--
			a.position++
			stack = append(stack, e[at].left, e[at].right)
		}
	}
}

// causes finds who is behind the values of the levels.
func (s *State) causes(group int32, l demandMask) []Cause {
	owners := slices.SortedFunc(maps.Keys(s.owners), lock.Owner.Compare)
	if s.contention.bigLock > 0 {
		c := Cause{Level: lock.Cluster, Value: valueMax * float64(lock.Levels) / 10, Claimed: lock.AllExclusive, Lock: lock.BGL}
		s.addOwners(&c, owners, func(claim claim) bool { return claim.level == lock.Cluster })
		return []Cause{c}
	}
	var causes []Cause
	for k := range lock.Levels {
		value := s.contention.worstCase(k, l>>(4*k)&15)
		if value == 0 {
			continue
		}
		c := Cause{Level: lock.Instance + lock.Level(k), Value: float64(value) / 10, Demand: l.kind(k)}
		names := s.namesOf(group, c.Level)
		s.addOwners(&c, owners, func(claim claim) bool {
			if claim.level != c.Level {
				return false
			}
			cell := conflicts[c.Demand][claim.demand]
			return cell.apart == value || cell.overlap == value && slices.Contains(names, claim.name)
		})
		causes = append(causes, c)
	}
	return causes
}

// namesOf are the places of the names that a group declares at a level.
func (s *State) namesOf(group int32, level lock.Level) []int32 {
	var names []int32
	for name := range s.groups.names.listed(s.groups.items[group].names) {
		if s.groups.names.items[name].level == level {
			names = append(names, name)
		}
	}
	return names
}

// addOwners fills in who is guilty of a cause, and how.
func (s *State) addOwners(c *Cause, owners []lock.Owner, matches func(claim) bool) {
	found := false
	for _, o := range owners {
		culprit, matched := s.owners[o].firstClaim(c.Level, matches)
		switch {
		case !matched:
		case found:
			c.OtherOwners++
		default:
			found = true
			c.Owner, c.ClaimKind, c.Claimed = o, culprit.kind, culprit.demand
			if culprit.name != 0 {
				c.Lock = lock.Member(culprit.level, s.groups.names.items[culprit.name].text)
			}
		}
	}
}

// firstClaim is the first claim that counts and is guilty: real ones come before those
// that are expected. Of a running job without claims at the level, it is that it
// wants nothing.
func (p *activeOwner) firstClaim(level lock.Level, matches func(claim) bool) (claim, bool) {
	claimed := false
	for c := range p.claims() {
		if matches(c) {
			return c, true
		}
		claimed = claimed || c.level == level
	}
	idle := claim{level: level, demand: lock.Nothing, kind: Expects}
	return idle, p.running && !claimed && level != lock.Cluster && matches(idle)
}
