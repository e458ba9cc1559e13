package sim

import (
	"fmt"

	"lockstep/core/filter"
	"lockstep/core/job"
)

// checkFilters: while an acknowledged rule is in force, the scheduler chooses no job that the
// rule pauses or rejects, and no process of such a job is permitted to begin its next opcode or
// given locks. What was on its way when the rule came may continue, except that after the answer to the
// rule no process of such a job is confirmed. A job that
// a rule rejects at its submission is recorded as canceled before its client gets the id; no
// other job is.
type checkFilters struct {
	sent map[*submission]int // generation of the rules when the submission was sent; 0: unknown
}

func (*checkFilters) Name() string { return "filter rules" }

func (c *checkFilters) See(w *World, event any) error {
	switch e := event.(type) {
	case jobPicked:
		j := w.Job(e.id)
		if j != nil && j.Status().Final() {
			return nil // it was canceled on the way, and has no next opcode that a rule about locks could read
		}
		v, known := w.effective.verdict(j)
		if known && v.bars() {
			return fmt.Errorf("job %d was chosen to start, but rule %s says %s", e.id, v.uuid, v.action.Verb)
		}
	case processPermitted:
		if rules := w.effective.answered; rules != nil && w.oracle == nil {
			return c.judgeStart(w, rules, w.Job(e.process.job))
		}
	case opPermitted:
		v, known := w.effective.verdictAt(w.Job(e.process.job), e.op)
		if known && e.process.onDecider() && v.bars() {
			return fmt.Errorf("job %d may begin opcode %d, but rule %s says %s", e.process.job, e.op, v.uuid, v.action.Verb)
		}
	case locksTaken:
		v, known := w.effective.verdict(w.Job(e.process.job))
		if known && e.process.onDecider() && !e.afterLostAnswer && v.bars() {
			return fmt.Errorf("job %d has got the locks for opcode %d, but rule %s says %s", e.process.job, e.op, v.uuid, v.action.Verb)
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

// judgeStart checks that no process is confirmed after the answer to a rule that pauses or rejects its job. In a cluster one
// whose name is on its way to the log when the rule comes is confirmed.
func (c *checkFilters) judgeStart(w *World, rules *filter.Set, j *job.Job) error {
	if j == nil {
		return nil
	}
	v := rules.Evaluate(filter.NewSubject(j, w.nameOf(j.ID), w.userOf(j.ID)), w.effective.declare())
	if v.Rule >= 0 && rules.Rules()[v.Rule].HasEnded(w.Now().UnixNano()) {
		return nil
	}
	if v.Action.Verb == filter.Pause || v.Action.Verb == filter.Reject {
		return fmt.Errorf("the process of job %d is confirmed, but rule %s says %s", j.ID, v.UUID, v.Action.Verb)
	}
	return nil
}

// judgeNew checks new jobs by the rules, if these have not changed since the jobs were sent: a rejected job is canceled when its client
// hears of it.
func (c *checkFilters) judgeNew(w *World, ids []int64) error {
	for _, id := range ids {
		j := w.Job(id)
		v, known := w.effective.verdictAt(j, 0) // as at the submission, though the job may have ended since
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
