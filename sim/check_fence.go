package sim

import (
	"fmt"
	"time"
)

// checkFence: a node that becomes the master while jobs run that another node has started permits no process to act until these
// have ended, also if it was the master a moment before.
type checkFence struct {
	master *node
	until  time.Time
}

// fenceTime is how long jobs of a former master may run (docs/cluster.md, "What does a failover do?").
const fenceTime = 2 * time.Second

func (*checkFence) Name() string { return "the fence" }

func (c *checkFence) See(w *World, event any) error {
	switch e := event.(type) {
	case deciderStarted:
		c.master, c.until = w.decider, w.clock.Now()
		for _, running := range w.decider.cluster.expected.running {
			if running.Node != w.decider.uuid() {
				c.until = w.clock.Now().Add(fenceTime)
			}
		}
	case processPermitted:
		p := e.process
		if left := c.until.Sub(w.clock.Now()); p.machine.node == c.master && w.decider == c.master && left > 0 {
			return fmt.Errorf("%s starts job %d %v before the jobs of the former master have ended", c.master.name, p.job, left)
		}
	}
	return nil
}
