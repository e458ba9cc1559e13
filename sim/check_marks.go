package sim

import (
	"fmt"
	"slices"

	"lockstep/core/job"
	"lockstep/messages"
)

// checkMarks: a job that is shown as waiting for locks without a process has none, and its file says that it is pending. When it is marked,
// the marked jobs and the jobs that run their first opcodes are not more than there are run slots. In rest it is neither paused, held nor
// rejected.
type checkMarks struct {
	marked map[int64]bool
	picked map[int64]bool // by the present daemon
	holds  checkHolds
}

func newCheckMarks() *checkMarks {
	return &checkMarks{marked: map[int64]bool{}, picked: map[int64]bool{}}
}

func (*checkMarks) Name() string { return "marks" }

func (c *checkMarks) See(w *World, event any) error {
	_ = c.holds.See(w, event) // it has its own checker
	switch e := event.(type) {
	case waitShown:
		return c.shown(w, e)
	case diskFailed: // the queue takes the mark from a job whose file cannot be restored
		if id, is := jobOfPath(e.path); is {
			delete(c.marked, id)
		}
	case jobPicked:
		c.picked[e.id] = true
		delete(c.marked, e.id)
	case deciderStarted, queueStarted:
		c.marked, c.picked = map[int64]bool{}, map[int64]bool{}
	case timePassed:
		if w.effective.known && w.effective.quiescentAt+1 == w.stepCount {
			return c.rest(w)
		}
	}
	return nil
}

func (c *checkMarks) shown(w *World, e waitShown) error {
	if e.wait != messages.StartWait_FOR_LOCKS {
		delete(c.marked, e.id)
		return nil
	}
	c.dropEnded(w)
	c.marked[e.id] = true
	working := 0
	for id := range c.picked {
		if w.decider.machine.runsFirstOpcode(id) {
			working++
		}
	}
	if n := len(c.marked) + working; n > w.effective.slotsMax {
		return fmt.Errorf("job %d is marked: %d are marked and %d work, there are %d slots", e.id, len(c.marked), working, w.effective.slotsMax)
	}
	return nil
}

// dropEnded drops jobs that have ended or are gone: nothing is shown of their marks.
func (c *checkMarks) dropEnded(w *World) {
	for id := range c.marked {
		if j := w.Job(id); j == nil || j.Status().Final() {
			delete(c.marked, id)
		}
	}
}

func (c *checkMarks) rest(w *World) error {
	c.dropEnded(w)
	for id := range c.marked {
		j := w.Job(id)
		if !j.IsPending() {
			return fmt.Errorf("job %d is shown as waiting for locks without a process, but its file says %s", id, j.Status())
		}
		if v, known := w.effective.verdict(j); known && v.bars() {
			return fmt.Errorf("job %d is shown as waiting for locks, but rule %s says %s", id, v.uuid, v.action.Verb)
		}
		if held := c.holds.held(id); held != nil && w.effective.quiescentAt > held.at {
			return fmt.Errorf("job %d is shown as waiting for locks, but is held", id)
		}
	}
	return nil
}

// runsFirstOpcode reports whether a job has a process that runs its first opcode. One that waits for it may have given its slot back.
func (m *machine) runsFirstOpcode(id int64) bool {
	j := m.world.Job(id)
	return j != nil && j.Ops[0].Status == job.Running &&
		slices.ContainsFunc(m.processes, func(p *process) bool { return p.job == id && !p.life.Over })
}
