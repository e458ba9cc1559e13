package sim

import "fmt"

// checkOnce: no opcode starts twice, whatever crashes, and one with a policy of tries not twice in one start of its job. A submission that
// is sent again, because its answer was lost, starts again if the file of its job was removed by hand meanwhile.
type checkOnce struct {
	started map[string]int64 // the job in which an opcode was started
	garbled map[int64]bool   // jobs whose files were changed or removed by hand
}

func (*checkOnce) Name() string { return "nothing runs twice" }

func (c *checkOnce) See(_ *World, event any) error {
	if c.started == nil {
		c.started, c.garbled = map[string]int64{}, map[int64]bool{}
	}
	if g, is := event.(garbled); is {
		c.garbled[g.id] = true
	}
	e, is := event.(opcodeStarted)
	if !is {
		return nil
	}
	key := fmt.Sprintf("opcode %d of %s", e.op, e.tag)
	if policyIn(e.input).times > 0 {
		key += fmt.Sprintf(" in start %d", e.process.start)
	}
	if before, twice := c.started[key]; twice && (before == e.job || !c.garbled[before]) {
		return fmt.Errorf("%s was started in job %d, and again in job %d", key, before, e.job)
	}
	c.started[key] = e.job
	return nil
}
