package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// checkClientOrders: a client that orders a cancel or another priority gets an answer, also
// when the order crosses with the job's end. Only a cancel that takes long by itself may take
// until orderAnswerMax. A recent fault (see disturbance) or a client that hangs up excuses the
// daemon.
type checkClientOrders struct {
	sent map[*client]time.Time
}

func (*checkClientOrders) Name() string { return "wishes are answered" }

// orderAnswerMax is a little more than the bound of the jobs actors on a cancel.
const orderAnswerMax = 46 * time.Second

func (c *checkClientOrders) See(w *World, event any) error {
	if c.sent == nil {
		c.sent = map[*client]time.Time{}
	}
	switch e := event.(type) {
	case orderSent:
		c.sent[e.client] = w.clock.Now()
	case orderAnswered:
		at, waits := c.sent[e.client]
		if !waits { // one order for several jobs
			return nil
		}
		delete(c.sent, e.client)
		took := w.clock.Now().Sub(at)
		late := took > orderAnswerMax || e.err != nil && strings.Contains(e.err.Error(), "too busy")
		if late && w.disturbance.noneSince(at) && !errors.Is(e.err, errHungUp) {
			return fmt.Errorf("client %d waited %.3f s for what it wanted of job %d, and heard: %w", e.client.number, took.Seconds(), e.id, e.err)
		}
	}
	return nil
}
