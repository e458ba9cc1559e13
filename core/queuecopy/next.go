package queuecopy

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/noded"
)

// Decision is what follows from the events so far.
type Decision struct {
	Calls    []Call
	Released []Released // answers that need not wait any longer
	Wake     time.Time  // when to call Next again at the latest; zero: after the next event
}

func (d *Decision) wake(at time.Time) {
	if d.Wake.IsZero() || at.Before(d.Wake) {
		d.Wake = at
	}
}

// Next decides what follows at a time.
func (t *Tracker) Next(now time.Time) Decision {
	var d Decision
	for _, p := range t.peers {
		t.becomeDue(now, p, &d)
		switch {
		case p.call != nil:
		case now.Before(p.retryAt):
			d.wake(p.retryAt)
		default:
			if c := t.choose(now, p, &d); c != nil {
				t.begin(p, c)
				d.Calls = append(d.Calls, *c)
			}
		}
	}
	t.release(now, &d)
	return d
}

// becomeDue turns comparisons whose time has come into marks.
func (t *Tracker) becomeDue(now time.Time, p *peer, d *Decision) {
	for len(p.due) > 0 && !now.Before(p.due[0].at) {
		n := check
		if !p.due[0].unit.IsJob() {
			n = update
		}
		if m, marked := p.marks[p.due[0].unit]; !marked || m.need != update { // else it is sent anyway
			p.put(p.due[0].unit, n, now)
		}
		p.due = p.due[1:]
	}
	if len(p.due) > 0 {
		d.wake(p.due[0].at)
	}
	switch {
	case len(t.running) == 0:
		p.checks = time.Time{}
	case p.checks.IsZero():
		p.checks = now.Add(runningPause)
		d.wake(p.checks)
	case now.Before(p.checks):
		d.wake(p.checks)
	default:
		for _, u := range slices.Sorted(maps.Keys(t.running)) {
			p.put(u, check, now)
		}
		p.checks = now.Add(runningPause)
		d.wake(p.checks)
	}
}

// choose returns the next call of an idle candidate; nil: there is nothing to do.
func (t *Tracker) choose(now time.Time, p *peer, d *Decision) *Call {
	if !p.known {
		return &Call{Op: AskMaster}
	}
	for _, u := range []Unit{Serial, Drain, Pause} { // the serial first: it is never behind the newest job
		if _, marked := p.marks[u]; marked {
			return &Call{Op: Update, Units: []Unit{u}}
		}
	}
	for _, a := range t.awaits {
		for _, u := range a.units {
			if m, marked := p.marks[u]; marked {
				return p.batch(m.need, ordered{u, m.seq})
			}
		}
	}
	for len(p.order) > 0 {
		first := p.order[0]
		if m, marked := p.marks[first.unit]; marked && m.seq == first.seq {
			return p.batch(m.need, first)
		}
		p.order = p.order[1:]
	}
	return t.chooseSweep(now, p, d)
}

// batch makes a call for a unit and for others with the same need, oldest first.
func (p *peer) batch(n need, first ordered) *Call {
	c := &Call{Op: map[need]Op{update: Update, refill: Refill, archive: Archive, check: Check}[n], Units: []Unit{first.unit}}
	most := map[need]int{update: 1, refill: 1, archive: renameMax, check: checkMax}[n]
	for _, o := range p.order {
		if len(c.Units) >= most {
			break
		}
		if m, marked := p.marks[o.unit]; marked && m.seq == o.seq && m.need == n && o != first {
			c.Units = append(c.Units, o.unit)
		}
	}
	return c
}

// chooseSweep returns the next part of a sweep.
func (t *Tracker) chooseSweep(now time.Time, p *peer, d *Decision) *Call {
	s := &p.sweep
	switch {
	case s.at.IsZero():
		return nil
	case now.Before(s.at):
		d.wake(s.at)
		return nil
	case !s.begun:
		s.begun, s.next = true, t.serial
	}
	if s.next < 0 {
		*s = sweep{}
		return nil
	}
	c := &Call{Op: Check}
	for u := s.next; u >= 0 && len(c.Units) < checkMax; u-- {
		c.Units = append(c.Units, u)
	}
	return c
}

// begin takes the marks of a call.
func (t *Tracker) begin(p *peer, c *Call) {
	t.lastCall++
	c.Number, c.Node = t.lastCall, noded.Node{Name: p.Name, Address: p.Address}
	p.call, p.taken = c, map[Unit]mark{}
	for _, u := range c.Units {
		if m, marked := p.marks[u]; marked {
			p.taken[u] = m
			delete(p.marks, u)
		}
	}
	if len(p.order) > 2*len(p.marks)+16 {
		p.order = slices.DeleteFunc(p.order, func(o ordered) bool { return p.marks[o.unit].seq != o.seq })
	}
	t.calls[c.Number] = p
}
