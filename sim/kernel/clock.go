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
	idle       timers // of AfterIdle
}

type timer struct {
	at     time.Time
	number uint64 // breaks ties: the older timer fires first
	life   *Lifetime
	f      func()  // nil: stopped or fired
	heap   *timers // in which it waits
}

// NewClock makes a clock that shows epoch.
func NewClock() *Clock { return &Clock{now: epoch} }

// After runs f when d has passed, unless the timer is stopped or the lifetime has ended by then.
func (c *Clock) After(d time.Duration, l *Lifetime, f func()) (stop func() bool) {
	return c.add(&c.timers, d, l, f)
}

// AfterIdle is After for what changes nothing while the world is at rest, such as heartbeats: Skip puts it off.
func (c *Clock) AfterIdle(d time.Duration, l *Lifetime, f func()) { c.add(&c.idle, d, l, f) }

func (c *Clock) add(to *timers, d time.Duration, l *Lifetime, f func()) (stop func() bool) {
	c.timersMade++
	t := &timer{at: c.now.Add(max(d, 0)), number: c.timersMade, life: l, f: f, heap: to}
	heap.Push(to, t)
	return func() bool {
		was := t.f != nil
		t.f = nil
		return was
	}
}

// Fire moves the time to the next timer and runs it; false if there is none. Timers of what is paused wait for its end.
func (c *Clock) Fire() bool {
	t := c.first()
	if t == nil {
		return false
	}
	heap.Pop(t.heap)
	c.now = t.at
	f := t.f
	t.f = nil
	f()
	return true
}

// Next is the time at which the next timer fires; false if there is none.
func (c *Clock) Next() (time.Time, bool) {
	if t := c.first(); t != nil {
		return t.at, true
	}
	return time.Time{}, false
}

// Skip lets the time pass until the next timer that is not one of AfterIdle, and puts those off by as much, which it returns.
func (c *Clock) Skip() time.Duration {
	next := c.timers.first()
	if next == nil || !next.at.After(c.now) {
		return 0
	}
	d := next.at.Sub(c.now)
	for _, t := range c.idle {
		t.at = t.at.Add(d)
	}
	c.now = next.at
	return d
}

// first is the next timer that fires; nil: there is none.
func (c *Clock) first() *timer {
	t, idle := c.timers.first(), c.idle.first()
	if t == nil || idle != nil && idle.before(t) {
		return idle
	}
	return t
}

// first drops the timers that do not fire, and returns the next one that does; nil: there is none.
func (h *timers) first() *timer {
	for len(*h) > 0 {
		t := (*h)[0]
		if t.f != nil && !t.life.Over && !t.life.Paused {
			return t
		}
		heap.Pop(h)
		if t.f != nil && t.life.Paused && !t.life.Over {
			t.life.timers = append(t.life.timers, t)
		}
	}
	return nil
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
		heap.Push(t.heap, t)
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

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, k int) bool { return h[i].before(h[k]) }

func (t *timer) before(other *timer) bool {
	if !t.at.Equal(other.at) {
		return t.at.Before(other.at)
	}
	return t.number < other.number
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
