package sim

import (
	"fmt"
	"time"
)

// checkRest: wherever a job rests, all agree on it: what clients are told at once is
// what its file says, and in a cluster the other nodes have that a moment later. An
// opcode begins only when they have the end of the former one.
//
// What goes wrong otherwise may hold this up for a while, see calm.
type checkRest struct{}

func (checkRest) Name() string { return "all agree on a job that rests" }

// othersKnowMax is how long the other nodes may take.
const othersKnowMax = 100 * time.Millisecond

func (checkRest) See(w *World, event any) error {
	switch e := event.(type) {
	case viewTold:
		if e.told != e.shape && w.calm.now(w) && w.clock.now.Sub(e.since) >= w.lookMax() {
			return fmt.Errorf("job %d rests at %s, clients are told %s", e.process.job, e.shape, e.told)
		}
	case processRests:
		if w.truth == nil || !w.calm.now(w) || !w.charge.settled() || w.clock.now.Sub(e.since) < othersKnowMax {
			return nil
		}
		if j := w.Job(e.process.job); j == nil || shapeOf(j) != e.shape {
			return fmt.Errorf("job %d rests at %s since %.3f s ago; what is committed says %s", e.process.job, e.shape, w.clock.now.Sub(e.since).Seconds(), shown(j))
		}
	case opPermitted:
		return permitted(w, e)
	}
	return nil
}

// lookMax is how long the daemon may take to look at a file that is too long for a
// report: in a cluster the look waits for what is on its way to the other nodes.
func (w *World) lookMax() time.Duration {
	if w.truth == nil || w.options.ReportMax > 1 {
		return 0
	}
	return othersKnowMax
}

// permitted: no failover can undo the opcodes before the one that may begin.
func permitted(w *World, e opPermitted) error {
	j := w.Job(e.process.job)
	if w.truth == nil || j == nil || !e.process.inCharge() {
		return nil
	}
	for i := range min(e.op, len(j.Ops)) {
		if !j.Ops[i].Status.Final() {
			return fmt.Errorf("job %d may begin opcode %d; what is committed says that opcode %d is %s", e.process.job, e.op, i, j.Ops[i].Status)
		}
	}
	return nil
}
