package sim

import (
	"fmt"
	"time"

	"lockstep/core/lock"
)

// checkOwners: nobody takes the locks of a dead job before all that it has left is
// gone and its end is on the disk; and when nothing has failed for a while, no
// dead process holds or wants any. The first is not promised by a cluster, where locks
// start empty with each master, when the fence is over.
type checkOwners struct {
	atWork map[*process]bool // died in the middle of an opcode, its job has not ended
	dead   []*process        // by the time of death; to be looked at
	since  time.Duration     // of the last fault, or start of a daemon
	ends   map[*process]time.Duration
}

// holdMax is how long a dead process may hold locks: an actor that has crashed
// over its job looks at it again after a minute.
const holdMax = 90 * time.Second

func (*checkOwners) Name() string { return "the locks of the dead" }

func (c *checkOwners) See(w *World, event any) error {
	if c.ends == nil {
		c.atWork, c.ends = map[*process]bool{}, map[*process]time.Duration{}
	}
	switch e := event.(type) {
	case processEnded:
		if e.process.holds != nil {
			c.atWork[e.process] = true
		}
		c.dead = append(c.dead, e.process)
		c.ends[e.process] = w.clock.elapsed()
	case fileChanged:
		c.fileChanged(e)
	case opcodeStarted:
		if w.truth == nil {
			return c.started(w.machine.ofJob(e.job))
		}
	case powerLost:
		c.atWork, c.dead = map[*process]bool{}, nil
		c.since = w.clock.elapsed()
	case tookCharge, diskFailed, panicked, stalled:
		c.since = w.clock.elapsed()
	case timePassed, finished:
		if len(c.dead) > 0 && w.charge != nil && w.charge.daemon != nil && w.charge.daemon.ready &&
			w.clock.elapsed() > max(c.ends[c.dead[0]], c.since)+holdMax {
			return c.free(w)
		}
	}
	return nil
}

func (c *checkOwners) fileChanged(e fileChanged) {
	if e.job != nil && !e.job.Status().Final() {
		return
	}
	for p := range c.atWork { // the order does not matter
		if p.job == e.id {
			delete(c.atWork, p)
		}
	}
}

// started: a job works with its locks now.
func (c *checkOwners) started(p *process) error {
	if p == nil || len(p.holds) == 0 {
		return nil
	}
	for dead := range c.atWork {
		if l, clash := conflict(p.holds, dead.holds); clash && dead.job != p.job {
			return fmt.Errorf("job %d works with %s of job %d, which is dead and has no end on the disk", p.job, l, dead.job)
		}
	}
	return nil
}

// free: those who have been dead for long hold nothing.
func (c *checkOwners) free(w *World) error {
	snapshot, err := w.lockState()
	if err != nil {
		return err
	}
	var due []*process
	for len(c.dead) > 0 && w.clock.elapsed() > max(c.ends[c.dead[0]], c.since)+holdMax {
		due = append(due, c.dead[0])
		delete(c.ends, c.dead[0])
		c.dead = c.dead[1:]
	}
	had := map[string]bool{}
	for _, h := range snapshot.Holdings {
		had[h.Owner.Livelock] = true
	}
	for _, p := range snapshot.Pending {
		had[p.Owner.Livelock] = true
	}
	for _, p := range due {
		if p.livelock != "" && p.inCharge() && had[p.livelock] {
			return fmt.Errorf("process %d of job %d is dead for long, and has locks: %s", p.pid, p.job, lock.Encode(snapshot))
		}
	}
	return nil
}
