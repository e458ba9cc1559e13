package sim

import "time"

// disturbance is when something last went wrong that may delay what the daemon knows or
// answers.
type disturbance struct {
	last  time.Time // something went wrong
	until time.Time // it may not be made good before
}

// How long it may take until what went wrong is made good: an actor that has crashed
// comes back later and later, as does what the disk has refused; nodes are cut off, or
// slow, for a while; a client that found no daemon calls again.
const (
	afterPanic   = 65 * time.Second
	afterFault   = 20 * time.Second
	afterFailure = 40 * time.Second
	afterStart   = 5 * time.Second
)

func (c *disturbance) observe(w *World, event any) {
	switch event.(type) {
	case panicked:
		c.record(w, afterPanic)
	case faultInjected:
		c.record(w, afterFault)
	case diskFailed, garbled:
		c.record(w, afterFailure)
	case daemonStarted, deciderStarted, powerLost, stalled:
		c.record(w, afterStart)
	}
}

func (c *disturbance) record(w *World, d time.Duration) {
	c.last = w.clock.Now()
	if until := c.last.Add(d); until.After(c.until) {
		c.until = until
	}
}

// recovered: everything that went wrong is repaired.
func (c *disturbance) recovered(w *World) bool { return w.clock.Now().After(c.until) }

// noneSince: nothing has gone wrong since then, and everything before was repaired.
func (c *disturbance) noneSince(at time.Time) bool { return c.last.Before(at) && !c.until.After(at) }
