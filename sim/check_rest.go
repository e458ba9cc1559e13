package sim

import (
	"fmt"
	"time"
)

// checkRest: when a job rests, the daemon's answers agree with its file at once, and in a cluster
// the committed files agree a moment later. An opcode begins only when the end of the one before
// is committed.
//
// A recent fault may delay this, see disturbance.
type checkRest struct{}

func (checkRest) Name() string { return "all agree on a job that rests" }

// replicationMax is how long the other nodes may take.
const replicationMax = 100 * time.Millisecond

func (checkRest) See(w *World, event any) error {
	switch e := event.(type) {
	case viewReported:
		if e.reported != e.summary && w.disturbance.recovered(w) && w.clock.Now().Sub(e.since) >= w.rereadMax() {
			return fmt.Errorf("job %d rests at %s, clients are told %s", e.process.job, e.summary, e.reported)
		}
	case processResting:
		if w.oracle == nil || !w.disturbance.recovered(w) || !w.decider.quiescent() || w.clock.Now().Sub(e.since) < replicationMax {
			return nil
		}
		if j := w.Job(e.process.job); j == nil || opSummary(j) != e.summary {
			return fmt.Errorf("job %d rests at %s since %.3f s ago; what is committed says %s",
				e.process.job, e.summary, w.clock.Now().Sub(e.since).Seconds(), committedText(j))
		}
	case opPermitted:
		return permitted(w, e)
	}
	return nil
}

// rereadMax is how long the daemon may take to read a file that is too long for a report: in a cluster it waits for entries on their way
// to the other nodes, otherwise it takes no time.
func (w *World) rereadMax() time.Duration {
	if w.oracle == nil || w.options.ReportMax > 1 {
		return 0
	}
	return replicationMax
}

// permitted checks that no failover can undo the opcodes before the one that may begin.
func permitted(w *World, e opPermitted) error {
	j := w.Job(e.process.job)
	if w.oracle == nil || j == nil || !e.process.onDecider() {
		return nil
	}
	for i := range min(e.op, len(j.Ops)) {
		if !j.Ops[i].Status.Final() {
			return fmt.Errorf("job %d may begin opcode %d; what is committed says that opcode %d is %s", e.process.job, e.op, i, j.Ops[i].Status)
		}
	}
	return nil
}
