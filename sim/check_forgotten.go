package sim

import (
	"fmt"
	"time"
)

type (
	// fileMissed: a client that needs the file of a job was told that there is no such job.
	fileMissed struct{ id int64 }
	// removedListed: an answer to a list that was sent at that time has a job whose file was removed by hand.
	removedListed struct {
		id   int64
		sent time.Time
	}
)

// checkForgotten: an ended job whose file was removed by hand is forgotten when somebody asks for the file. A list that is asked for later
// has the same jobs as the questions for one, unless a fault is being repaired.
type checkForgotten struct {
	missed map[int64]time.Time // first, since the last fault
}

// forgetMax is the time from the answer to who has missed a file until the queue has looked for itself.
const forgetMax = 500 * time.Millisecond

func (*checkForgotten) Name() string { return "removed jobs are forgotten" }

func (c *checkForgotten) See(w *World, event any) error {
	if c.missed == nil {
		c.missed = map[int64]time.Time{}
	}
	switch e := event.(type) {
	case fileMissed:
		if at, before := c.missed[e.id]; w.disturbance.recovered(w) && w.Job(e.id) == nil && (!before || !w.disturbance.noneSince(at)) {
			c.missed[e.id] = w.clock.Now()
		}
	case removedListed:
		at, missed := c.missed[e.id]
		if missed && w.Job(e.id) == nil && e.sent.Sub(at) > forgetMax && w.disturbance.noneSince(at) {
			return fmt.Errorf("job %d is listed; its file was removed, and %v ago somebody who wants it was told that there is no such job",
				e.id, w.clock.Now().Sub(at))
		}
	}
	return nil
}
