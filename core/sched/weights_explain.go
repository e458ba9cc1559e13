package sched

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/lock"
)

func (w *weights) explain(to *Explanation, e *entry, _ time.Time) {
	if w.settings.Order != Weights {
		return
	}
	mask := w.maskOf(e.group)
	to.Predictive, to.BGL = true, mask&bigLock != 0
	to.StaticWeight = float64(w.table.staticWeight(mask)) / 10
	to.Weight = float64(w.table.weight(mask, e.arrivalTick)) / float64(10*w.table.k)
	if !to.BGL {
		to.Causes = w.causes(e.group, mask)
	}
}

// causes finds the owners behind the values of the levels. While the big lock counts in the contention it is the only cause.
func (w *weights) causes(group int32, l demandMask) []Cause {
	owners := slices.SortedFunc(maps.Keys(w.owners), lock.Owner.Compare)
	if w.contention.bigLock > 0 {
		c := Cause{Level: lock.Cluster, Value: float64(valueOfBigLock) / 10, Claimed: lock.AllExclusive, Lock: lock.BGL}
		w.addOwners(&c, owners, func(claim claim) bool { return claim.level == lock.Cluster })
		return []Cause{c}
	}
	var causes []Cause
	for k := range lock.Levels {
		value := w.contention.worstCase(k, l>>(4*k)&15)
		if value == 0 {
			continue
		}
		c := Cause{Level: lock.DemandLevel(k), Value: float64(value) / 10, Demand: l.kind(k)}
		names := w.namesAt(group, c.Level)
		w.addOwners(&c, owners, func(claim claim) bool {
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

// namesAt are the names that a group declares at a level.
func (w *weights) namesAt(group int32, level lock.Level) []int32 {
	var names []int32
	for name := range w.groups.namesOf(group) {
		if w.groups.names.items[name].level == level {
			names = append(names, name)
		}
	}
	return names
}

// addOwners sets the owners of a cause: the owners with a claim that matches.
func (w *weights) addOwners(c *Cause, owners []lock.Owner, matches func(claim) bool) {
	found := false
	for _, o := range owners {
		culprit, matched := w.owners[o].firstClaim(c.Level, matches)
		switch {
		case !matched:
		case found:
			c.OtherOwners++
		default:
			found = true
			c.Owner, c.ClaimKind, c.Claimed = o, culprit.kind, culprit.demand
			if culprit.name != 0 {
				c.Lock = lock.Member(culprit.level, w.groups.names.items[culprit.name].text)
			}
		}
	}
}

// firstClaim is the first claim that counts and matches; false if none does. Claims on held and awaited locks come before declared ones.
// A running job without claims at the level has the claim that it wants nothing.
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
