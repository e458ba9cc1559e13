package sim

import "time"

// disturbance records when the last fault happened that may delay what the daemon knows or
// answers.
type disturbance struct {
	last  time.Time // time of the last fault
	until time.Time // its effects may last until then
}

// Bounds of the effects of faults: an actor that has crashed is restarted after longer and longer
// pauses, as is a write that the disk has refused; nodes are cut off or slow for a while; a
// client that found no daemon calls again.
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

// recovered reports whether the effects of all faults have ended.
func (c *disturbance) recovered(w *World) bool { return w.clock.Now().After(c.until) }

// noneSince reports whether no fault has happened since then, and the effects of all earlier ones
// had ended.
func (c *disturbance) noneSince(at time.Time) bool { return c.last.Before(at) && !c.until.After(at) }
