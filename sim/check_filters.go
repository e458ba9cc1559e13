package sim

import (
	"fmt"

	"lockstep/core/filter"
	"lockstep/core/job"
)

// checkFilters: while a rule that was acknowledged is in force, the scheduler
// chooses no job that it pauses or rejects, and no process is permitted to begin
// its next opcode that it pauses, nor given locks that it waits for. What was on
// its way when the rule came may continue. A job that is rejected when it comes is
// recorded as canceled before its client hears of it, and one that is not is not.
type checkFilters struct {
	sent map[*submission]int // generation of the rules when it was sent; 0: not known
}

func (*checkFilters) Name() string { return "filter rules" }

func (c *checkFilters) See(w *World, event any) error {
	switch e := event.(type) {
	case jobPicked:
		v, known := w.effective.verdict(w.Job(e.id))
		if known && (v.action.Verb == filter.Pause || v.action.Verb == filter.Reject) {
			return fmt.Errorf("job %d was chosen to start, but rule %s says %s", e.id, v.uuid, v.action.Verb)
		}
	case opPermitted:
		v, known := w.effective.verdict(w.Job(e.process.job))
		if known && e.process.onDecider() && v.action.Verb == filter.Pause {
			return fmt.Errorf("job %d may begin opcode %d, but rule %s pauses it", e.process.job, e.op, v.uuid)
		}
	case locksTaken:
		v, known := w.effective.verdict(w.Job(e.process.job))
		if known && e.process.onDecider() && !e.afterLostAnswer && v.action.Verb == filter.Pause {
			return fmt.Errorf("job %d has got the locks for opcode %d, but rule %s pauses it", e.process.job, e.op, v.uuid)
		}
	case submissionSent:
		if c.sent == nil {
			c.sent = map[*submission]int{}
		}
		if w.effective.known {
			c.sent[e.submission] = w.effective.generation
		}
	case submissionAnswered:
		if at := c.sent[e.submission]; at != 0 && w.effective.known && at == w.effective.generation {
			return c.judgeNew(w, e.submission.ids)
		}
	}
	return nil
}

// judgeNew: the rules have not changed since these jobs were sent. A rejected job is canceled
// when its client gets the id, and no other job is.
func (c *checkFilters) judgeNew(w *World, ids []int64) error {
	for _, id := range ids {
		j := w.Job(id)
		v, known := w.effective.verdict(j)
		if !known {
			continue
		}
		rejected := v.action.Verb == filter.Reject
		canceled := j.Status() == job.Canceled && j.Livelock != "" && len(j.Ops) > 0 && j.Ops[0].Start == (job.Timestamp{})
		if rejected && !canceled {
			return fmt.Errorf("job %d is %s when its client hears of it, but rule %s rejects it", id, j.Status(), v.uuid)
		}
	}
	return nil
}
