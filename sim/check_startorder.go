package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/core/config"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/paths"
)

// checkStartOrder: no job starves. Of the eligible jobs one with a more urgent priority is chosen
// first. Of the same priority, a job that has waited for K ticks is chosen before every later
// one, whatever they lock; in the plain order each job is chosen before the later ones. In the order
// expected a job may wait for its locks, so only more urgent jobs without locks are judged;
// checkExpected judges the others where it knows all locks.
//
// A job counts as eligible only if that is certain: it is queued, has no dependency, no rule,
// limit or client order concerns it, the disk has never failed it, and all this held when the
// world was last quiescent.
type checkStartOrder struct {
	waiting map[int64]*waitingJob
	orders  map[int64]int  // client orders without an answer, by job
	held    map[int64]bool // jobs that a client has held at some time
}

// waitingJob is a job that has not been chosen, as far as an observer can tell.
type waitingJob struct {
	job     *job.Job
	changed uint64 // the step of the latest event about the job
	odd     bool   // it may be ineligible for reasons that are not visible here
}

func (*checkStartOrder) Name() string { return "order" }

func (c *checkStartOrder) See(w *World, event any) error {
	if c.waiting == nil {
		c.waiting, c.orders, c.held = map[int64]*waitingJob{}, map[int64]int{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case fileChanged:
		c.fileChanged(w, e)
	case jobPicked:
		delete(c.waiting, e.id)
		return c.picked(w, e.id)
	case jobReturned:
		c.see(w, e.id, w.Job(e.id))
	case holdSent:
		c.held[e.id] = true
		if known := c.waiting[e.id]; known != nil {
			known.odd = true
		}
	case orderSent:
		c.orders[e.id]++
	case orderAnswered:
		c.answered(w, e)
	case diskFailed:
		c.failed(w, e.path)
	case garbled:
		delete(c.waiting, e.id)
	case deciderStarted, stalled:
		for id := range c.waiting { // the order does not matter
			c.touch(w, id)
		}
	case powerLost:
		clear(c.waiting)
	}
	return nil
}

func (c *checkStartOrder) touch(w *World, id int64) {
	if known := c.waiting[id]; known != nil {
		known.changed = w.stepCount
	}
}

// answered records that an order has ended. An order whose answer was lost may be carried out
// later.
func (c *checkStartOrder) answered(w *World, e orderAnswered) {
	c.touch(w, e.id)
	if c.orders[e.id]--; c.orders[e.id] == 0 {
		delete(c.orders, e.id)
	}
	if known := c.waiting[e.id]; known != nil && e.err != nil {
		known.odd = true
	}
}

// failed records a job whose file could not be written or synced: the job may have to wait until
// the disk works again.
func (c *checkStartOrder) failed(w *World, path string) {
	if id, is := jobOfPath(path); is && c.waiting[id] != nil {
		c.waiting[id].odd = true
	}
	for _, known := range c.waiting { // the order does not matter
		known.odd = known.odd || path == paths.QueueDir && known.changed >= w.effective.quiescentAt
	}
}

func (c *checkStartOrder) fileChanged(w *World, e fileChanged) {
	if e.job == nil || e.job.Status() != job.Queued || paths.IsJobLivelock(e.job.Livelock) {
		delete(c.waiting, e.id)
		return
	}
	c.see(w, e.id, e.job)
}

func (c *checkStartOrder) see(w *World, id int64, j *job.Job) {
	if j == nil {
		return
	}
	known := c.waiting[id]
	if known == nil {
		known = &waitingJob{odd: !Unconstrained(j) || c.held[id]}
		c.waiting[id] = known
	}
	known.job, known.changed = j, w.stepCount
}

func (c *checkStartOrder) picked(w *World, id int64) error {
	j := w.Job(id)
	if j == nil || !w.effective.known {
		return nil
	}
	for other, waits := range c.waiting {
		if waits.odd || c.orders[other] > 0 || waits.changed >= w.effective.quiescentAt || other > w.serial() {
			continue
		}
		why := c.before(w, waits.job, j)
		if v, known := w.effective.verdict(waits.job); why == "" || !known || v.action.Verb != filter.Accept {
			continue
		}
		return fmt.Errorf("job %d was chosen before job %d, which may run and %s", id, other, why)
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
