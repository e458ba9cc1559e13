package queuecopy

import (
	"maps"
	"slices"
	"time"
)

// await is an answer that waits until a majority of the candidates has units.
type await struct {
	id       uint64
	units    []Unit
	deadline time.Time
	open     map[*peer]map[Unit]bool // what each candidate of the beginning may still lack
}

// Released is an answer that need not wait any longer.
type Released struct {
	ID   uint64
	Late bool // the majority lacks a unit; AwaitMax has passed
}

// Await makes an answer wait until more than half of the candidates that are online, this node among them, have the present states
// of units. Their calls come before others.
func (t *Tracker) Await(now time.Time, id uint64, units []Unit) {
	a := &await{id, units, now.Add(AwaitMax), map[*peer]map[Unit]bool{}}
	for _, p := range t.peers {
		a.open[p] = map[Unit]bool{}
		for _, u := range units {
			_, marked := p.marks[u]
			_, inCall := p.taken[u]
			if !marked && !inCall && !p.sweep.at.IsZero() && u.IsJob() {
				p.put(u, check, now) // a former incarnation may have known that the candidate lacks it
				marked = true
			}
			if marked || inCall {
				a.open[p][u] = true
			}
		}
	}
	t.awaits = append(t.awaits, a)
}

// release moves the answers that need not wait any longer into the decision.
func (t *Tracker) release(now time.Time, d *Decision) {
	t.awaits = slices.DeleteFunc(t.awaits, func(a *await) bool {
		have := 1 // this node
		for _, p := range t.peers {
			open, asked := a.open[p]
			if !asked {
				continue
			}
			for u := range maps.Clone(open) {
				_, marked := p.marks[u]
				_, inCall := p.taken[u]
				if !marked && !inCall {
					delete(open, u)
				}
			}
			if len(open) == 0 {
				have++
			}
		}
		late := !now.Before(a.deadline)
		if over := 2*have > len(t.peers)+1; over || late {
			d.Released = append(d.Released, Released{a.id, !over})
			return true
		}
		d.wake(a.deadline)
		return false
	})
}
