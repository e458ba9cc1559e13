package sched

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Why explains why a candidate does not run yet.
type Why struct {
	// Running of Slots slots are taken: none is free if Running >= Slots.
	Running, Slots int
	// Full are the limits that keep the job, by key.
	Full []Full
	// Position is the place among all candidates, those that limits keep too, as
	// things are now: each pick changes the weights. With Beyond it is at least that.
	Position int
	Beyond   bool

	// AgeTicks is what the job's age counts for, which may be more than it is if
	// the clock was set back. It goes on beyond K.
	AgeTicks int64

	// Predictive tells whether what follows matters; without, it is zero.
	Predictive bool
	// BGL: the job wants the big lock, and weighs the most whatever runs.
	BGL bool
	// Static is the weight before ageing, and Weight after.
	Static, Weight float64
	// Causes make Static what it is beyond the base value: one for each level that
	// adds to it, in the order of levels. If somebody has or will have the big
	// lock, that is the only one.
	Causes []Cause
}

// Full is a limit, and how many running jobs carry it.
type Full struct {
	Limit
	Running int
}

// Cause is what a level adds to the weight, and because of whom.
type Cause struct {
	Level lock.Level
	Value float64
	// Wants is what the job wants at the level, Owner the first of those that are
	// most in its way, and Others how many more of these there are.
	Wants  lock.Knowledge
	Owner  lock.Owner
	Others int
	// How the owner is concerned with Known of the level; with Lock, if names
	// belong to that. Of one that wants nothing there Known is lock.Nothing: the
	// job would add to the contention.
	How   How
	Known lock.Knowledge
	Lock  lock.Lock
}

// Why explains a candidate's place. It looks at no more than so many of those who may go before it.
func (s *State) Why(id job.ID, now time.Time, most int) (Why, bool) {
	at := s.groups.entry(id)
	if at == 0 {
		return Why{}, false
	}
	s.settle(now)
	e := &s.groups.entries.all[at]
	lane, look := &s.groups.lanes.all[s.groups.all[e.group].lane], s.groups.lookNow(e.group)
	w := Why{
		Running: len(s.running), Slots: s.settings.Slots,
		Full:     s.groups.limits.fullOf(lane.limits),
		AgeTicks: max(s.weights.now-e.birth, 0), Predictive: s.settings.Predictive,
	}
	w.Position, w.Beyond = s.position(e, most)
	if !w.Predictive {
		return w, true
	}
	w.BGL = look&bigLock != 0
	w.Static = float64(s.weights.static(look)) / 10
	w.Weight = float64(s.weights.of(look, e.birth)) / float64(10*s.weights.k)
	if !w.BGL {
		w.Causes = s.causes(e.group, look)
	}
	return w, true
}

func (l *limits) fullOf(set int32) []Full {
	if set == 0 {
		return nil
	}
	var full []Full
	for _, g := range l.sets.all[set].gates {
		if g.full() {
			full = append(full, Full{Limit{g.key, g.n}, g.carried})
		}
	}
	return full
}

// position is one more than how many go before. It ends when it has looked at so many.
func (s *State) position(of *entry, most int) (position int, beyond bool) {
	a := ahead{State: s, mine: s.orderOf(of, s.groups.lookNow(of.group)), left: most, position: 1}
	for _, at := range s.groups.lanes.live {
		l := &s.groups.lanes.all[at]
		if l.priority <= a.mine.priority {
			a.lane(l, s.groups.known(l))
		}
	}
	return a.position, a.left < 0
}

// ahead counts who goes before a candidate. In the heaps of lanes and of groups those who go last are farthest from the root,
// so a branch ends at the first who does not go before it.
type ahead struct {
	*State
	mine     order
	left     int // to look at; negative: there may be more
	position int
}

// lane counts in the groups of a lane, whose names are known to be in the way.
func (a *ahead) lane(l *lane, known look) {
	places := []int{0}
	for len(places) > 0 && a.left >= 0 {
		place := places[len(places)-1]
		places = places[:len(places)-1]
		if place >= len(l.heap) || !a.orderOf(a.groups.rootOf(l.heap[place]), known).before(a.mine) {
			continue
		}
		a.left--
		a.group(l.heap[place])
		places = append(places, 2*place+1, 2*place+2)
	}
}

// group counts in one group.
func (a *ahead) group(group int32) {
	now, e := a.groups.lookNow(group), a.groups.entries.all
	entries := []int32{a.groups.all[group].root}
	for len(entries) > 0 && a.left >= 0 {
		at := entries[len(entries)-1]
		entries = entries[:len(entries)-1]
		if at != 0 && a.orderOf(&e[at], now).before(a.mine) {
			a.left--
			a.position++
			entries = append(entries, e[at].left, e[at].right)
		}
	}
}

// causes finds who is behind the values of the levels.
func (s *State) causes(group int32, l look) []Cause {
	owners := slices.SortedFunc(maps.Keys(s.parties), lock.Owner.Compare)
	if s.load.bigLock > 0 {
		c := Cause{Level: lock.Cluster, Value: worst * float64(lock.Levels) / 10, Known: lock.AllExclusive, Lock: lock.BGL}
		s.blame(&c, owners, func(claim claim) bool { return claim.level == lock.Cluster })
		return []Cause{c}
	}
	var causes []Cause
	for k := range lock.Levels {
		value := s.load.compare(k, l>>(4*k)&15)
		if value == 0 {
			continue
		}
		c := Cause{Level: lock.Instance + lock.Level(k), Value: float64(value) / 10, Wants: l.kind(k)}
		names := s.namesOf(group, c.Level)
		s.blame(&c, owners, func(claim claim) bool {
			if claim.level != c.Level {
				return false
			}
			cell := conflicts[c.Wants][claim.known]
			return cell.apart == value || cell.overlap == value && slices.Contains(names, claim.name)
		})
		causes = append(causes, c)
	}
	return causes
}

// namesOf are the places of the names that a group declares at a level.
func (s *State) namesOf(group int32, level lock.Level) []int32 {
	var names []int32
	for name := range s.groups.names.of(s.groups.all[group].links) {
		if s.groups.names.all[name].level == level {
			names = append(names, name)
		}
	}
	return names
}

// blame fills in who is guilty of a cause, and how.
func (s *State) blame(c *Cause, owners []lock.Owner, guilty func(claim) bool) {
	found := false
	for _, o := range owners {
		by, is := s.parties[o].guilt(c.Level, guilty)
		switch {
		case !is:
		case found:
			c.Others++
		default:
			found = true
			c.Owner, c.How, c.Known = o, by.how, by.known
			if by.name != 0 {
				c.Lock = lock.Member(by.level, s.groups.names.all[by.name].text)
			}
		}
	}
}

// guilt is the first claim that counts and is guilty: real ones come before those
// that are expected. Of a running job without claims at the level, it is that it
// wants nothing.
func (p *party) guilt(level lock.Level, guilty func(claim) bool) (claim, bool) {
	claimed := false
	for c := range p.claims() {
		if guilty(c) {
			return c, true
		}
		claimed = claimed || c.level == level
	}
	idle := claim{level: level, known: lock.Nothing, how: Expects}
	return idle, p.runs && !claimed && level != lock.Cluster && guilty(idle)
}
