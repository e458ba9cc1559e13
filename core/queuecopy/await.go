package queuecopy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Acknowledge says which candidates must have a change before its client gets the answer.
type Acknowledge uint8

const (
	// Local waits for no candidate: this node's disk has the change.
	Local Acknowledge = iota
	// Majority waits for more than half of the candidates that are online, this node among them, and AwaitMax at most.
	Majority
	// All waits for each candidate that does not count as behind. A candidate that has not got the change after AllMax counts as behind.
	All
)

var acknowledgeNames = []string{"local", "majority", "all"}

// String is the name of the value in the settings.
func (a Acknowledge) String() string { return acknowledgeNames[a] }

// ParseAcknowledge is the reverse of String.
func ParseAcknowledge(name string) (Acknowledge, error) {
	i := slices.Index(acknowledgeNames, name)
	if i < 0 {
		return 0, fmt.Errorf("%q is none of %s", name, strings.Join(acknowledgeNames, ", "))
	}
	return Acknowledge(i), nil
}

const (
	// AwaitMax is how long an answer waits for a majority at most.
	AwaitMax = 30 * time.Second
	// AllMax is how long an answer waits for one candidate at most. A candidate whose calls have failed for this time counts as behind, too.
	AllMax = 5 * time.Second
)

// await is an answer to a client that is held back until the candidates have what it reports.
type await struct {
	id       uint64
	deadline time.Time
	lacks    map[*peer]int // units that each candidate of the beginning may still lack
	released bool
}

// Released is an answer that need not wait any longer.
type Released struct {
	ID   uint64
	Late bool // the majority lacks a unit; AwaitMax has passed
}

// Await makes an answer wait until the candidates that Acknowledge names have the states that units have now. Calls about these units
// come before other calls.
func (t *Tracker) Await(now time.Time, id uint64, units []Unit) {
	t.calmAt = now.Add(calm)
	a := &await{id: id, deadline: now.Add(AwaitMax), lacks: map[*peer]int{}}
	if t.acknowledge == All {
		a.deadline = now.Add(AllMax)
	}
	for _, p := range t.peers {
		a.lacks[p] = 0
		for _, u := range units {
			if p.attach(now, u, a) {
				a.lacks[p]++
			}
		}
	}
	t.awaits = append(t.awaits, a)
}

// attach adds an answer to what the candidate may lack of a unit, and reports whether it may lack any. A unit that has changed before the
// begin of a call is in that call; one that has changed since is marked.
func (p *peer) attach(now time.Time, u Unit, a *await) (lacks bool) {
	m, marked := p.marks[u]
	f, inCall := p.inCall[u]
	switch {
	case marked:
		p.put(u, m.need, now, a)
	case inCall:
		m, taken := f.taken[u]
		if !taken { // of a sweep
			m = mark{need: check, since: now}
		}
		m.awaits = append(open(m.awaits), a)
		f.taken[u] = m
	case !p.sweep.at.IsZero() && u.IsJob():
		p.put(u, check, now, a) // a former incarnation may have known that the candidate lacks it
	default:
		return false
	}
	return true
}

// open returns those of the answers that still wait.
func open(awaits []*await) (waiting []*await) {
	for _, a := range awaits {
		if !a.released {
			waiting = append(waiting, a)
		}
	}
	return waiting
}

// has counts down, in each answer that waited for a unit of this candidate, that the candidate has the unit.
func (p *peer) has(awaits []*await) {
	for _, a := range awaits {
		a.lacks[p]--
	}
}

// release moves the answers that need not wait any longer into the decision: those of which all candidates, or a majority of the nodes,
// have all units, and those whose time is over. A candidate that lacks units then falls behind if all are awaited.
func (t *Tracker) release(now time.Time, d *Decision) {
	t.awaits = slices.DeleteFunc(t.awaits, func(a *await) bool {
		if t.acknowledge == All {
			if !t.waitsForAll(now, a, d) {
				a.released = true
				d.Released = append(d.Released, Released{ID: a.id})
				return true
			}
			d.wake(a.deadline)
			return false
		}
		have := 1 // this node
		for _, p := range t.peers {
			if lacks, asked := a.lacks[p]; asked && lacks == 0 {
				have++
			}
		}
		late := !now.Before(a.deadline)
		if over := 2*have > len(t.peers)+1; over || late {
			a.released = true
			d.Released = append(d.Released, Released{a.id, !over})
			return true
		}
		d.wake(a.deadline)
		return false
	})
}

// waitsForAll reports whether a candidate that does not count as behind lacks a unit. After the deadline each of them counts as behind.
func (t *Tracker) waitsForAll(now time.Time, a *await, d *Decision) (waits bool) {
	for _, p := range t.peers {
		if p.behind || a.lacks[p] == 0 {
			continue
		}
		if now.Before(a.deadline) {
			waits = true
			continue
		}
		p.fallBehind(d)
	}
	return waits
}

func (p *peer) fallBehind(d *Decision) {
	p.behind = true
	d.Behind = append(d.Behind, p.Node)
}

// judge decides whether a candidate counts as behind. It has caught up when it has answered since its last failure, and has all changes
// but those of the last AllMax.
func (t *Tracker) judge(now time.Time, p *peer, d *Decision) {
	fails := p.failures > 0
	switch {
	case t.acknowledge != All:
	case p.behind && !fails && p.known && !p.lacksOlder(now.Add(-AllMax)):
		p.behind = false
		d.CaughtUp = append(d.CaughtUp, p.Node)
	case !p.behind && fails && now.Sub(p.failingSince) >= AllMax:
		p.fallBehind(d)
	case !p.behind && fails:
		d.wake(p.failingSince.Add(AllMax))
	}
}

// lacksOlder reports whether the candidate may lack a change that is not younger than since: one in a call, or the one that is sent next.
func (p *peer) lacksOlder(since time.Time) bool {
	for _, f := range p.flights {
		for _, m := range f.taken {
			if !m.since.After(since) {
				return true
			}
		}
	}
	first, found := p.oldest()
	return found && !p.marks[first.unit].since.After(since)
}
