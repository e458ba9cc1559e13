package sim

import (
	"bytes"
	"fmt"
	"time"

	"lockstep/actors/jobs"
	"lockstep/core/job"
)

// checkStarts: no job fails because of attempts that had no permission, unless many in a row
// break over some time. If a daemon or an actor ends during an attempt, checkBegun judges what
// becomes of the job. It judges single nodes only: in a cluster a job whose start is in the log
// fails after a failover.
type checkStarts struct {
	// acted are jobs of which a process got its permission and launch spec.
	acted map[int64]bool
	// broken are the broken attempts of a job.
	broken map[int64]brokenStarts
	// picked are jobs that the jobs actors have got and that no crash has touched since.
	picked map[int64]bool
}

type brokenStarts struct {
	count int
	first time.Time
}

func (*checkStarts) Name() string { return "no start burns a job" }

func (c *checkStarts) See(w *World, event any) error {
	if c.acted == nil {
		c.acted, c.broken, c.picked = map[int64]bool{}, map[int64]brokenStarts{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case jobPicked:
		c.picked[e.id] = true
	case panicked, daemonStarted, powerLost:
		clear(c.picked)
	case spawnRefused:
		c.breaks(w, e.id)
	case processEnded:
		if e.process.launched {
			c.acted[e.process.job] = true
		} else {
			c.breaks(w, e.process.job)
		}
	case fileChanged:
		return c.changed(w, e)
	}
	return nil
}

func (c *checkStarts) breaks(w *World, id int64) {
	b := c.broken[id]
	if b.count == 0 {
		b.first = w.clock.Now()
	}
	b.count++
	c.broken[id] = b
}

func (c *checkStarts) changed(w *World, e fileChanged) error {
	if e.op != "end-job" || e.job == nil || e.job.Status() != job.Error || !c.picked[e.id] || c.acted[e.id] || w.garbled {
		return nil
	}
	b, patience := c.broken[e.id], jobs.DefaultRetryLimit()
	if b.count >= patience.Tries && w.clock.Now().Sub(b.first) >= patience.Time {
		return nil
	}
	return fmt.Errorf("job %d is failed after %d starts, none of which permitted anything: %s",
		e.id, b.count, bytes.TrimSpace(e.job.Ops[0].Result))
}
