package queuecopy

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/noded"
)

// Decision says what the caller of Next does now.
type Decision struct {
	Calls    []Call
	Released []Released // answers that need not wait any longer
	Behind   []Node     // candidates that count as behind from now on
	CaughtUp []Node     // candidates that do no longer
	Stopped  bool       // Stop is done
	Wake     time.Time  // when to call Next again at the latest; zero: after the next event
}

func (d *Decision) wake(at time.Time) {
	if d.Wake.IsZero() || at.Before(d.Wake) {
		d.Wake = at
	}
}

// Next decides what the caller does now: the calls to make, the answers that need not wait longer, and when to call Next again at the
// latest.
func (t *Tracker) Next(now time.Time) Decision {
	var d Decision
	for _, p := range t.peers {
		t.becomeDue(now, p, &d)
		for c := t.choose(now, p, &d); c != nil; c = t.choose(now, p, &d) {
			t.begin(p, c)
			d.Calls = append(d.Calls, *c)
		}
		t.judge(now, p, &d)
	}
	t.release(now, &d)
	if !t.stopBy.IsZero() {
		d.Stopped = t.stopped(now)
		d.wake(t.stopBy)
	}
	return d
}

// stopped reports whether the candidates that answer have the exact serial, or have taken too long.
func (t *Tracker) stopped(now time.Time) bool {
	return !now.Before(t.stopBy) || !slices.ContainsFunc(t.peers, func(p *peer) bool {
		_, marked := p.marks[Serial]
		_, inCall := p.inCall[Serial]
		return p.failures == 0 && !p.behind && (marked || inCall)
	})
}

// becomeDue marks the units whose comparison was put off until now, and once in each runningPause the running jobs for a check.
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

// choose returns the next call of a candidate; nil: there is nothing to do, or it must wait.
func (t *Tracker) choose(now time.Time, p *peer, d *Decision) *Call {
	switch {
	case now.Before(p.retryAt):
		d.wake(p.retryAt)
		return nil
	case len(p.flights) >= callsMax || !p.known && len(p.flights) > 0:
		return nil
	case !p.known:
		return &Call{Op: AskMaster}
	}
	for _, u := range []Unit{Serial, Drain, Pause} {
		_, marked := p.marks[u]
		_, inCall := p.inCall[u]
		if marked && !inCall {
			return t.updateOf(u)
		}
	}
	if p.serial < max(t.serial, 0) { // the serial is in a call: it is never behind a job
		return nil
	}
	for len(p.awaited) > 0 {
		if first := p.awaited[0]; p.isMarked(first) {
			return p.batch(p.marks[first.unit].need, first)
		}
		p.awaited = p.awaited[1:]
	}
	if now.Before(t.calmAt) && slices.ContainsFunc(p.flights, func(f *flight) bool { return !f.isAwaited() }) {
		d.wake(t.calmAt)
		return nil
	}
	if first, found := p.oldest(); found {
		return p.batch(p.marks[first.unit].need, first)
	}
	return t.chooseSweep(now, p, d)
}

// isAwaited reports whether an answer waits for a unit of the call.
func (f *flight) isAwaited() bool {
	for _, m := range f.taken {
		if m.isAwaited() {
			return true
		}
	}
	return false
}

// updateOf is the call for a unit that is no job.
func (t *Tracker) updateOf(u Unit) *Call {
	c := &Call{Op: Update, Units: []Unit{u}}
	if u == Serial && t.stopBy.IsZero() {
		c.Least, c.Ahead = int64(max(t.serial, 0)), serialAhead
	}
	return c
}

// isMarked reports whether an entry is not stale: the mark is there, and its unit is in no call.
func (p *peer) isMarked(o ordered) bool {
	m, marked := p.marks[o.unit]
	_, inCall := p.inCall[o.unit]
	return marked && m.seq == o.seq && !inCall
}

// oldest returns the oldest mark whose unit is in no call; found is false without one. It drops what is older in the order and no longer
// marked.
func (p *peer) oldest() (first ordered, found bool) {
	for len(p.order) > 0 {
		if p.isMarked(p.order[0]) {
			return p.order[0], true
		}
		p.order = p.order[1:]
	}
	return ordered{}, false
}

// batch makes a call for a unit and for others with the same need, oldest first.
func (p *peer) batch(n need, first ordered) *Call {
	c := &Call{Op: map[need]Op{update: Update, refill: Refill, archive: Archive, check: Check}[n], Units: []Unit{first.unit}}
	most := map[need]int{update: 1, refill: 1, archive: renameMax, check: checkMax}[n]
	for _, o := range p.order {
		if len(c.Units) >= most {
			break
		}
		if p.isMarked(o) && p.marks[o.unit].need == n && o != first {
			c.Units = append(c.Units, o.unit)
		}
	}
	return c
}

// chooseSweep returns the next part of a sweep, from the newest job down; nil: there is no sweep, it is not due, or a part is in a call.
// After the last part the sweep is over.
func (t *Tracker) chooseSweep(now time.Time, p *peer, d *Decision) *Call {
	s := &p.sweep
	switch {
	case s.at.IsZero() || s.inCall:
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
	c := &Call{Op: Check, sweep: true}
	for ; s.next >= 0 && len(c.Units) < checkMax; s.next-- {
		if _, inCall := p.inCall[s.next]; inCall {
			p.put(s.next, check, now)
			continue
		}
		c.Units = append(c.Units, s.next)
	}
	if len(c.Units) == 0 {
		return nil
	}
	s.inCall = true
	return c
}

// begin notes that a call is in progress. It has the marks of its units from now on, so a change during the call makes a new mark, and
// the unit is sent again.
func (t *Tracker) begin(p *peer, c *Call) {
	t.lastCall++
	c.Number, c.Node = t.lastCall, noded.Node{Name: p.Name, Address: p.Address}
	f := &flight{Call: *c, peer: p, taken: map[Unit]mark{}, epoch: p.epoch}
	for _, u := range c.Units {
		p.inCall[u] = f
		if m, marked := p.marks[u]; marked {
			f.taken[u] = m
			delete(p.marks, u)
		}
	}
	p.order, p.awaited = p.tidy(p.order), p.tidy(p.awaited)
	p.flights = append(p.flights, f)
	t.calls[c.Number] = f
}

// tidy removes the entries of marks that are gone, once they outnumber the others, so that the list stays as long as the marks.
func (p *peer) tidy(entries []ordered) []ordered {
	if len(entries) <= 2*len(p.marks)+16 {
		return entries
	}
	return slices.DeleteFunc(entries, func(o ordered) bool { return !p.isMarked(o) })
}

// end removes a call that has ended, so that its units may be in another call: those that have changed meanwhile come at the end of the
// order.
func (t *Tracker) end(f *flight) {
	p := f.peer
	delete(t.calls, f.Number)
	p.flights = slices.DeleteFunc(p.flights, func(o *flight) bool { return o == f })
	for _, u := range f.Units {
		delete(p.inCall, u)
		m, marked := p.marks[u]
		if !marked {
			continue
		}
		p.order = append(p.order, ordered{u, m.seq})
		if m.isAwaited() {
			p.awaited = append(p.awaited, ordered{u, m.seq})
		}
	}
}
