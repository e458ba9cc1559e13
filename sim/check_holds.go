package sim

import (
	"fmt"

	"lockstep/core/paths"
	"lockstep/core/record"
)

// checkHolds: from the acknowledged hold of a job until a client orders its release, the scheduler does not choose the
// job, and its process is not permitted to begin an opcode nor given locks. What was on its way when the hold came may
// continue. A hold would survive a power loss at the moment of its acknowledgement.
type checkHolds struct {
	jobs    map[int64]*heldJob
	garbled map[int64]bool
}

// heldJob is what clients know of the hold of a job.
type heldJob struct {
	open int    // orders without an answer
	held bool   // the last order was a hold, and was acknowledged
	at   uint64 // step of the acknowledgement
}

func (*checkHolds) Name() string { return "holds" }

func (c *checkHolds) See(w *World, event any) error {
	if c.jobs == nil {
		c.jobs, c.garbled = map[int64]*heldJob{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case holdSent:
		if c.jobs[e.id] == nil {
			c.jobs[e.id] = &heldJob{}
		}
		c.jobs[e.id].open++
		c.jobs[e.id].held = false
	case holdAnswered:
		j := c.jobs[e.id]
		if e.err == nil {
			j.open-- // an order without an answer may come late
		}
		if j.held, j.at = e.hold && e.done && j.open == 0, w.stepCount; j.held {
			return c.survives(w, e.id)
		}
	case garbled:
		c.garbled[e.id] = true
	case jobPicked:
		return c.forbid(w, e.id, "was chosen to start")
	case opPermitted:
		if e.process.onDecider() {
			return c.forbid(w, e.process.job, fmt.Sprintf("may begin opcode %d", e.op))
		}
	case locksTaken:
		if e.process.onDecider() && !e.afterLostAnswer {
			return c.forbid(w, e.process.job, fmt.Sprintf("has got the locks for opcode %d", e.op))
		}
	}
	return nil
}

// survives checks that the record on the disk says that the job is held. The job may have ended, and then its record
// may have been archived.
func (c *checkHolds) survives(w *World, id int64) error {
	content, there := w.disk.Surviving(paths.RecordPath(id))
	if j := w.Job(id); j == nil || j.Status().Final() || c.garbled[id] {
		return nil
	}
	r, err := record.Decode(content)
	if _, held := r.Hold(); !there || err != nil || !held {
		return fmt.Errorf("job %d is held, but after a power loss its record would say %q", id, content)
	}
	return nil
}

func (c *checkHolds) forbid(w *World, id int64, what string) error {
	if j := c.jobs[id]; j != nil && j.held && w.effective.quiescentAt > j.at && !c.garbled[id] {
		return fmt.Errorf("job %d %s, but is held", id, what)
	}
	return nil
}
