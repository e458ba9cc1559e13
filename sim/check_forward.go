package sim

import (
	"fmt"

	"lockstep/core/job"
)

// checkForward: an opcode's status only moves forward: queued, waiting, running, final. So a job
// may be waiting again after running, at its next opcode, but never queued again. Only a power
// loss takes back what was not durable, and a failed cancel is rolled back.
type checkForward struct {
	jobs map[int64][]job.Status
}

func (*checkForward) Name() string { return "status moves forward" }

func (c *checkForward) See(_ *World, event any) error {
	switch e := event.(type) {
	case fileChanged:
		return c.changed(e)
	case garbled:
		delete(c.jobs, e.id)
	case powerLost:
		c.jobs = nil
	}
	return nil
}

func (c *checkForward) changed(e fileChanged) error {
	if e.job == nil {
		delete(c.jobs, e.id)
		return nil
	}
	before := c.jobs[e.id]
	if e.op == "restore-job" {
		before = nil
	}
	statuses := make([]job.Status, len(e.job.Ops))
	for i := range e.job.Ops {
		statuses[i] = e.job.Ops[i].Status
		if i < len(before) && (before[i].Final() || statuses[i] < before[i]) && statuses[i] != before[i] {
			return fmt.Errorf("opcode %d of job %d was %s and is %s", i, e.id, before[i], statuses[i])
		}
	}
	if c.jobs == nil {
		c.jobs = map[int64][]job.Status{}
	}
	c.jobs[e.id] = statuses
	return nil
}
