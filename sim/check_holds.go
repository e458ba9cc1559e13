package sim

import (
	"fmt"

	"lockstep/core/paths"
	"lockstep/core/record"
)

// checkHolds: from the acknowledged hold of a job until a client orders its release, the scheduler does not choose the
// job, and its process begins no opcode, is not permitted to begin one, and is not given locks. The answer may name one
// opcode that may still begin. A hold would survive a power loss at the moment of its acknowledgement.
type checkHolds struct {
	jobs    map[int64]*heldJob
	garbled map[int64]bool
}

// heldJob is what clients know of the hold of a job.
type heldJob struct {
	open int    // orders without an answer
	met  bool   // since there was no open order, two were open at a time: which of them came last is not known
	held bool   // the last order was a hold, and was acknowledged
	at   uint64 // step of the acknowledgement
	may  int    // index of the opcode that may still begin; -1: none
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
		j := c.jobs[e.id]
		j.open++
		j.met, j.held = j.open > 1, false
	case holdAnswered:
		j := c.jobs[e.id]
		if e.err == nil {
			j.open-- // an order without an answer may come late
		}
		if j.held, j.at, j.may = e.hold && e.done && j.open == 0 && !j.met, w.stepCount, namedOpcode(e.text); j.held {
			return c.survives(w, e.id)
		}
	case garbled:
		c.garbled[e.id] = true
	case jobPicked:
		if j := c.held(e.id); j != nil && w.effective.quiescentAt > j.at { // the choice may have been on its way
			return fmt.Errorf("job %d was chosen to start, but is held", e.id)
		}
	case opcodeStarted:
		if e.node == w.decider {
			return c.forbid(e.job, e.op, "begins")
		}
	case opPermitted:
		if e.process.onDecider() {
			return c.forbid(e.process.job, e.op, "may begin")
		}
	case locksTaken:
		if e.process.onDecider() && !e.afterLostAnswer {
			return c.forbid(e.process.job, e.op, "has got the locks for")
		}
	}
	return nil
}

// namedOpcode is the index of the opcode that the answer to a hold says may still begin; -1 if it names none.
func namedOpcode(text string) int {
	var id, op int
	if _, err := fmt.Sscanf(text, "Job %d is held; opcode %d may still begin", &id, &op); err != nil {
		return -1
	}
	return op - 1
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

// held returns what is known of a held job; nil: the job is not held.
func (c *checkHolds) held(id int64) *heldJob {
	if j := c.jobs[id]; j != nil && j.held && !c.garbled[id] {
		return j
	}
	return nil
}

func (c *checkHolds) forbid(id int64, op int, what string) error {
	if j := c.held(id); j != nil && op != j.may {
		return fmt.Errorf("job %d %s opcode %d, but is held", id, what, op)
	}
	return nil
}
