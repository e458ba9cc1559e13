package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/core/config"
	"lockstep/core/job"
)

// checkStartOrder: no job starves. Of the eligible jobs one with a more urgent priority is chosen
// first. Of the same priority, a job that has waited for K ticks is chosen before every later
// one, whatever they lock; in the plain order each job is chosen before the later ones. In the order
// expected a job may wait for its locks, so only more urgent jobs without locks are judged;
// checkExpected judges the others where it knows all locks.
type checkStartOrder struct{ eligibility }

func (*checkStartOrder) Name() string { return "order" }

func (c *checkStartOrder) See(w *World, event any) error {
	c.observe(w, event)
	if e, is := event.(jobPicked); is {
		return c.picked(w, e.id)
	}
	return nil
}

func (c *checkStartOrder) picked(w *World, id int64) error {
	j := w.Job(id)
	if j == nil || !w.effective.known {
		return nil
	}
	for other, waits := range c.waiting { // the order does not matter
		if why := c.before(w, waits.job, j); why != "" && c.eligible(w, other) {
			return fmt.Errorf("job %d was chosen before job %d, which may run and %s", id, other, why)
		}
	}
	return nil
}

// before returns the reason why a job must be chosen before another; "" if it need not be.
func (c *checkStartOrder) before(w *World, waits, chosen *job.Job) string {
	settings := w.effective.settings
	if settings.Order == config.OrderExpected && !wantsNoLocks(waits) {
		return ""
	}
	switch mine, its := waits.Priority(), chosen.Priority(); {
	case mine < its:
		return fmt.Sprintf("is more urgent: %d against %d", mine, its)
	case mine > its || waits.ID > chosen.ID || settings.Order == config.OrderExpected:
		return ""
	case settings.Order == config.OrderPlain:
		return "came first"
	}
	// Ages are counted in full ticks of the clock.
	age := time.Duration(settings.PredictiveTicks+1) * settings.PredictiveTick()
	received := time.Unix(waits.Received.Sec, waits.Received.Usec*1000)
	if w.clock.Now().Sub(received) < age {
		return ""
	}
	return fmt.Sprintf("has waited for more than %d ticks", settings.PredictiveTicks)
}

// wantsNoLocks reports whether the first opcode of a job is a command that declares no locks.
func wantsNoLocks(j *job.Job) bool {
	var op map[string]json.RawMessage
	mustDecode(j.Ops[0].Input, &op)
	return string(op["OP_ID"]) == `"OP_RUN_COMMAND"` && op["locks"] == nil && op["opportunistic_locks"] == nil
}
