package kernel

import (
	"container/heap"
	"time"

	"lockstep/core/job"
)

// epoch is the time at which a world begins. It is not zero, which as a timestamp means "unset".
var epoch = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// Clock is virtual time: it stands still until its next timer fires.
type Clock struct {
	now        time.Time
	timersMade uint64 // number of timers made so far
	timers     timers
}

type timer struct {
	at     time.Time
	number uint64 // breaks ties: the older timer fires first
	life   *Lifetime
	f      func() // nil: stopped or fired
}

// NewClock makes a clock that shows epoch.
func NewClock() *Clock { return &Clock{now: epoch} }

// After runs f when d has passed, unless the timer is stopped or the lifetime has ended by then.
func (c *Clock) After(d time.Duration, l *Lifetime, f func()) (stop func() bool) {
	c.timersMade++
	t := &timer{at: c.now.Add(max(d, 0)), number: c.timersMade, life: l, f: f}
	heap.Push(&c.timers, t)
	return func() bool {
		was := t.f != nil
		t.f = nil
		return was
	}
}

// Fire moves the time to the next timer and runs it; false if there is none. Timers of what is paused wait for its end.
func (c *Clock) Fire() bool {
	for len(c.timers) > 0 {
		t := heap.Pop(&c.timers).(*timer)
		if t.f == nil || t.life.Over {
			continue
		}
		if t.life.Paused {
			t.life.timers = append(t.life.timers, t)
			continue
		}
		c.now = t.at
		f := t.f
		t.f = nil
		f()
		return true
	}
	return false
}

// Next is the time at which the next timer fires; false if there is none.
func (c *Clock) Next() (time.Time, bool) {
	for len(c.timers) > 0 {
		t := c.timers[0]
		if t.f != nil && !t.life.Over && !t.life.Paused {
			return t.at, true
		}
		heap.Pop(&c.timers)
		if t.f != nil && t.life.Paused && !t.life.Over {
			t.life.timers = append(t.life.timers, t)
		}
	}
	return time.Time{}, false
}

// Resume continues a paused lifetime. Timers that were due during the pause fire now.
func (c *Clock) Resume(l *Lifetime, s *Kernel) {
	deferred, timers := l.deferred, l.timers
	l.Paused, l.deferred, l.timers = false, nil, nil
	for _, r := range deferred {
		s.Add(r)
	}
	for _, t := range timers {
		if t.at.Before(c.now) {
			t.at = c.now
		}
		heap.Push(&c.timers, t)
	}
}

// Now is the virtual time.
func (c *Clock) Now() time.Time { return c.now }

// AdvanceTo moves the time to t, which is not before now. No timer is due before t.
func (c *Clock) AdvanceTo(t time.Time) { c.now = t }

// Elapsed is the virtual time since the beginning.
func (c *Clock) Elapsed() time.Duration { return c.now.Sub(epoch) }

// Stamp is the virtual time as files store it.
func (c *Clock) Stamp() job.Timestamp { return job.TimestampOf(c.now) }

// timers is a heap, the next one to fire on top.
type timers []*timer

func (h timers) Len() int { return len(h) }
func (h timers) Less(i, k int) bool {
	if !h[i].at.Equal(h[k].at) {
		return h[i].at.Before(h[k].at)
	}
	return h[i].number < h[k].number
}
func (h timers) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *timers) Push(t any)   { *h = append(*h, t.(*timer)) }
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
