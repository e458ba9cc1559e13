package kittest

import (
	"slices"
	"sync"
	"time"
)

// Clock is a kit.Clock for tests: it stands still until the test advances it. It implements kit.Clock.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	seq    int
	timers []*timer
}

type timer struct {
	at  time.Time
	seq int
	f   func()
}

// NewClock returns a clock that begins at the start of 2024 in UTC.
func NewClock() *Clock {
	return &Clock{now: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// Now is the current time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f when the clock was advanced by d, on the goroutine that advances it.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	t := &timer{at: c.now.Add(d), seq: c.seq, f: f}
	c.timers = append(c.timers, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := len(c.timers)
		c.timers = slices.DeleteFunc(c.timers, func(other *timer) bool { return other == t })
		return len(c.timers) < n
	}
}

// Next is the time until the next timer, zero if it is overdue; false: there is no timer.
func (c *Clock) Next() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.first()
	if first == nil {
		return 0, false
	}
	return max(first.at.Sub(c.now), 0), true
}

// Advance advances the clock by d and runs the timers that are due, in order, also those that a timer starts meanwhile.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.now.Add(d)
	for {
		first := c.first()
		if first == nil || first.at.After(end) {
			break
		}
		c.timers = slices.DeleteFunc(c.timers, func(t *timer) bool { return t == first })
		if first.at.After(c.now) {
			c.now = first.at
		}
		c.mu.Unlock()
		first.f()
		c.mu.Lock()
	}
	c.now = end
}

// SetBack sets the clock back by d, as an operator does. Timers count elapsed time, and are due as if it had not been set.
func (c *Clock) SetBack(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(-d)
	for _, t := range c.timers {
		t.at = t.at.Add(-d)
	}
}

// first is the next timer, or nil. c.mu is held.
func (c *Clock) first() *timer {
	if len(c.timers) == 0 {
		return nil
	}
	return slices.MinFunc(c.timers, func(a, b *timer) int {
		if n := a.at.Compare(b.at); n != 0 {
			return n
		}
		return a.seq - b.seq
	})
}
