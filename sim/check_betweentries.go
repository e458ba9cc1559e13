package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"lockstep/core/job"
	"lockstep/core/paths"
)

// checkNoTryAfterCancel: no command runs after a client was told that its job is canceled or killed.
type checkNoTryAfterCancel struct{ canceled map[int64]bool }

func (*checkNoTryAfterCancel) Name() string { return "no try after a cancel" }

func (c *checkNoTryAfterCancel) See(_ *World, event any) error {
	switch e := event.(type) {
	case cancelConfirmed:
		if c.canceled == nil {
			c.canceled = map[int64]bool{}
		}
		c.canceled[e.id] = true
	case garbled:
		delete(c.canceled, e.id)
	case opcodeStarted:
		if c.canceled[e.job] {
			return fmt.Errorf("opcode %d of job %d begins, but a client was told that the job is canceled", e.op, e.job)
		}
	}
	return nil
}

// checkTriesUsed: a job that no client has canceled fails for a cause that its policy names only after all tries.
type checkTriesUsed struct {
	ordered map[int64]bool // jobs that a client has canceled, or whose files were replaced from outside
}

func (*checkTriesUsed) Name() string { return "all tries are used" }

func (c *checkTriesUsed) See(w *World, event any) error {
	if c.ordered == nil {
		c.ordered = map[int64]bool{}
	}
	switch e := event.(type) {
	case orderSent:
		c.ordered[e.id] = c.ordered[e.id] || e.cancel
	case garbled:
		c.ordered[e.id] = true
	case fileChanged:
		if e.job != nil && e.job.Status() == job.Error && !c.ordered[e.id] {
			return c.judge(w, e)
		}
	}
	return nil
}

func (c *checkTriesUsed) judge(w *World, e fileChanged) error {
	i := slices.IndexFunc(e.job.Ops, func(op job.Op) bool { return op.Status == job.Error })
	op := &e.job.Ops[i]
	policy := policyIn(op.Input)
	cause := causeIn(op.Result)
	if bytes.HasPrefix(op.Result, []byte(`"detected death of job `+strconv.FormatInt(e.id, 10))) {
		cause = causeLost
	}
	if policy.times == 0 || !policy.names(cause) {
		return nil
	}
	var content []byte
	if f := w.disk.Find(paths.RecordPath(e.id)); f != nil {
		content = f.Data
	}
	tries := 0
	for _, r := range recordedTries(content) {
		if r.Op == i && r.Start != paths.StartOfLivelock(e.job.Livelock) {
			tries++
		}
	}
	if tries < policy.times {
		return fmt.Errorf("job %d has failed with %s after %d tries of opcode %d, which has %d further ones",
			e.id, op.Result, tries+1, i, policy.times)
	}
	return nil
}

// checkBetweenTries: while a job waits for its next try, nothing of it works, and at rest it has and wants no lock.
type checkBetweenTries struct{ waits map[int64]bool }

func (*checkBetweenTries) Name() string { return "between tries" }

func (c *checkBetweenTries) See(w *World, event any) error {
	if c.waits == nil {
		c.waits = map[int64]bool{}
	}
	switch e := event.(type) {
	case fileChanged:
		delete(c.waits, e.id)
		if e.job == nil || e.job.Status() == job.Queued || !e.job.IsPending() || paths.IsJobLivelock(e.job.Livelock) {
			return nil
		}
		c.waits[e.id] = true
		if w.decider != nil && slices.Contains(w.decider.machine.occupying(), e.id) {
			return fmt.Errorf("job %d waits for its next try, and something of it works", e.id)
		}
	case powerLost:
		clear(c.waits)
	case timePassed:
		if len(c.waits) > 0 && w.effective.quiescentAt+1 == w.stepCount && w.disturbance.recovered(w) {
			return c.rest(w)
		}
	}
	return nil
}

func (c *checkBetweenTries) rest(w *World) error {
	table, err := w.lockState()
	if err != nil {
		return err
	}
	for _, h := range table.Holdings {
		if id := int64(h.Owner.Job); c.waits[id] {
			return fmt.Errorf("job %d waits for its next try, and has locks", id)
		}
	}
	for _, r := range table.Pending {
		if id := int64(r.Owner.Job); c.waits[id] {
			return fmt.Errorf("job %d waits for its next try, and wants locks", id)
		}
	}
	return nil
}
