package sim

import "fmt"

// checkSlots: at most as many jobs work as there are run slots. The orphans of a dead process
// count until they are killed. A job whose process waits between two opcodes does not count: it
// may have given its slot back.
//
// Fewer slots stop no job: as many may work as there were slots when one of them got its own.
type checkSlots struct {
	allowed map[int64]int // by job: the number of slots when the job got its own
}

func (*checkSlots) Name() string { return "run slots" }

func (c *checkSlots) See(w *World, event any) error {
	if c.allowed == nil {
		c.allowed = map[int64]int{}
	}
	switch e := event.(type) {
	case jobPicked:
		c.allowed[e.id] = w.effective.slotsMax
	case opPermitted:
		// It may have kept its slot, or got another one just now.
		if e.process.onDecider() {
			c.allowed[e.process.job] = max(c.allowed[e.process.job], w.effective.slotsMax)
		}
		return c.count(w)
	case processPermitted, opcodeStarted:
		return c.count(w)
	}
	return nil
}

func (c *checkSlots) count(w *World) error {
	acting := w.occupying()
	allowed := w.effective.slotsMax
	for _, id := range acting {
		allowed = max(allowed, c.allowed[id])
	}
	if len(acting) > allowed {
		return fmt.Errorf("jobs %v run, there are %d slots", acting, allowed)
	}
	return nil
}
