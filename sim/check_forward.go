package sim

import (
	"fmt"

	"lockstep/core/job"
	"lockstep/core/paths"
)

// checkForward: an opcode's status only moves forward: queued, waiting, running, final. So a job
// may be waiting again after running, at its next opcode, but never queued again. An opcode with a policy of tries that has not ended
// waits again after a try, and moves forward within each start of the job. Only a power
// loss takes back what was not durable, and a failed cancel is rolled back.
type checkForward struct {
	jobs map[int64][]opState
}

// opState is the state of an opcode, with the number of the start of its job.
type opState struct {
	status job.Status
	start  int64
	place  int // of a state within one start of an opcode that may be tried again
}

// The places of an opcode that may be tried again: a start takes it from taken to an end, or to waits.
const (
	placeTaken = iota
	placeWaiting
	placeRunning
	placeTryEnded
	placeWaits // for the next start
	placeFinal
)

func (*checkForward) Name() string { return "status moves forward" }

func (c *checkForward) See(_ *World, event any) error {
	switch e := event.(type) {
	case fileChanged:
		return c.changed(e)
	case garbled:
		delete(c.jobs, e.id)
	case powerLost:
		c.jobs = nil
	}
	return nil
}

func (c *checkForward) changed(e fileChanged) error {
	if e.job == nil {
		delete(c.jobs, e.id)
		return nil
	}
	before := c.jobs[e.id]
	if e.op == "restore-job" {
		before = nil
	}
	states := make([]opState, len(e.job.Ops))
	for i := range e.job.Ops {
		op := &e.job.Ops[i]
		states[i] = opState{op.Status, paths.StartOfLivelock(e.job.Livelock), placeOf(op, paths.IsJobLivelock(e.job.Livelock))}
		if i < len(before) && !before[i].mayBecome(states[i], policyIn(op.Input).times > 0) {
			return fmt.Errorf("opcode %d of job %d was %s in start %d, and is %s in start %d",
				i, e.id, before[i].status, before[i].start, states[i].status, states[i].start)
		}
	}
	if c.jobs == nil {
		c.jobs = map[int64][]opState{}
	}
	c.jobs[e.id] = states
	return nil
}

func (s opState) mayBecome(next opState, triedAgain bool) bool {
	switch {
	case next.status == s.status && !triedAgain:
		return true
	case s.status.Final():
		return next.status == s.status
	case triedAgain && s.start != next.start && next.status != job.Queued:
		return next.start > s.start
	case triedAgain && s.status != job.Queued:
		return next.status != job.Queued && next.place >= s.place
	}
	return next.status >= s.status
}

func placeOf(op *job.Op, hasProcess bool) int {
	switch {
	case op.Status.Final():
		return placeFinal
	case op.Status == job.Running:
		return placeRunning
	case !op.End.IsZero():
		return placeTryEnded
	case op.Status == job.Waiting && op.Start.IsZero() && !hasProcess:
		return placeWaits
	case op.Status == job.Waiting && !op.Start.IsZero():
		return placeWaiting
	}
	return placeTaken
}
