package sim

import (
	"container/heap"
	"time"

	"lockstep/actors/kit"
	"lockstep/core/job"
)

// epoch is when a world begins. It is not zero, which as a timestamp means
// "unset".
var epoch = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// clock is virtual time: it stands still until its next timer is fired.
type clock struct {
	now        time.Time
	timersMade uint64 // timers so far
	timers     timers
}

type timer struct {
	at     time.Time
	number uint64 // breaks ties: the older first
	life   *lifetime
	f      func() // nil: stopped, or fired
}

func newClock() *clock { return &clock{now: epoch} }

// after runs f when d has passed, unless it is stopped or the lifetime is over by then.
func (c *clock) after(d time.Duration, l *lifetime, f func()) (stop func() bool) {
	c.timersMade++
	t := &timer{at: c.now.Add(max(d, 0)), number: c.timersMade, life: l, f: f}
	heap.Push(&c.timers, t)
	return func() bool {
		was := t.f != nil
		t.f = nil
		return was
	}
}

// fire moves the time to the next timer and runs it; false if there is none.
func (c *clock) fire() bool {
	for len(c.timers) > 0 {
		t := heap.Pop(&c.timers).(*timer)
		if t.f == nil || t.life.over {
			continue
		}
		if t.life.paused {
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

// next is when the next timer is due.
func (c *clock) next() (time.Time, bool) {
	for len(c.timers) > 0 {
		t := c.timers[0]
		if t.f != nil && !t.life.over && !t.life.paused {
			return t.at, true
		}
		heap.Pop(&c.timers)
		if t.f != nil && t.life.paused && !t.life.over {
			t.life.timers = append(t.life.timers, t)
		}
	}
	return time.Time{}, false
}

// resume continues a paused lifetime. Timers that were due during the pause fire now.
func (c *clock) resume(l *lifetime, s *kernel) {
	deferred, timers := l.deferred, l.timers
	l.paused, l.deferred, l.timers = false, nil, nil
	for _, r := range deferred {
		s.add(r)
	}
	for _, t := range timers {
		if t.at.Before(c.now) {
			t.at = c.now
		}
		heap.Push(&c.timers, t)
	}
}

func (c *clock) elapsed() time.Duration { return c.now.Sub(epoch) }

func (c *clock) stamp() job.Timestamp { return job.TimestampOf(c.now) }

// actorClock is the clock as the actors of one daemon see it.
type actorClock struct {
	clock *clock
	life  *lifetime
}

var _ kit.Clock = actorClock{}

func (c actorClock) Now() time.Time { return c.clock.now }

func (c actorClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return c.clock.after(d, c.life, f)
}

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
