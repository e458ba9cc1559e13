package sim

import "time"

// calm is since when nothing has gone wrong that may hold up what the daemon knows, or
// what it answers.
type calm struct {
	last  time.Time // something went wrong
	until time.Time // it may not be made good before
}

// How long it may take until what went wrong is made good: an actor that has crashed
// comes back later and later, as does what the disk has refused; nodes are cut off, or
// slow, for a while; who found no daemon asks again.
const (
	afterPanic   = 65 * time.Second
	afterStrike  = 20 * time.Second
	afterFailure = 40 * time.Second
	afterStart   = 5 * time.Second
)

func (c *calm) see(w *World, event any) {
	switch event.(type) {
	case panicked:
		c.disturb(w, afterPanic)
	case struck:
		c.disturb(w, afterStrike)
	case diskFailed, garbled:
		c.disturb(w, afterFailure)
	case daemonStarted, tookCharge, powerLost, stalled:
		c.disturb(w, afterStart)
	}
}

func (c *calm) disturb(w *World, d time.Duration) {
	c.last = w.clock.now
	if until := c.last.Add(d); until.After(c.until) {
		c.until = until
	}
}

// now: whatever went wrong is made good.
func (c *calm) now(w *World) bool { return w.clock.now.After(c.until) }

// since: nothing has gone wrong since, and what had before is made good.
func (c *calm) since(at time.Time) bool { return c.last.Before(at) && !c.until.After(at) }
