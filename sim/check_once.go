package sim

import "fmt"

// checkOnce: no opcode starts twice, whatever crashes.
type checkOnce struct {
	started map[string]int64 // the job in which an opcode was started
}

func (*checkOnce) Name() string { return "nothing runs twice" }

func (c *checkOnce) See(_ *World, event any) error {
	e, is := event.(opcodeStarted)
	if !is {
		return nil
	}
	if c.started == nil {
		c.started = map[string]int64{}
	}
	key := fmt.Sprintf("opcode %d of %s", e.op, e.tag)
	if before, twice := c.started[key]; twice {
		return fmt.Errorf("%s was started in job %d, and again in job %d", key, before, e.job)
	}
	c.started[key] = e.job
	return nil
}
