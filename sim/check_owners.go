package sim

import (
	"fmt"
	"time"

	"lockstep/core/lock"
	"lockstep/core/paths"
)

// checkOwners: no job gets the locks of a dead job before all processes of the dead job have
// ended and its end, or that of its try, is on the disk. When nothing has failed for a while, no dead process holds or
// wants locks. A cluster does not promise the first: each master begins without locks, after the
// fence.
type checkOwners struct {
	diedWorking map[*process]bool // died in the middle of an opcode; the job has not ended
	dead        []*process        // by the time of death; not judged yet
	undisturbed time.Duration     // time of the last fault or start of a daemon
	deaths      map[*process]time.Duration
}

// deadHoldMax is how long a dead process may hold locks: an actor that has crashed over its
// job probes it a minute later.
const deadHoldMax = 90 * time.Second

func (*checkOwners) Name() string { return "the locks of the dead" }

func (c *checkOwners) See(w *World, event any) error {
	if c.deaths == nil {
		c.diedWorking, c.deaths = map[*process]bool{}, map[*process]time.Duration{}
	}
	switch e := event.(type) {
	case processEnded:
		if e.process.heldLocks != nil {
			c.diedWorking[e.process] = true
		}
		c.dead = append(c.dead, e.process)
		c.deaths[e.process] = w.clock.Elapsed()
	case fileChanged:
		c.fileChanged(e)
	case opcodeStarted:
		if w.oracle == nil {
			return c.started(w.machine.ofJob(e.job))
		}
	case powerLost:
		c.diedWorking, c.dead = map[*process]bool{}, nil
		c.undisturbed = w.clock.Elapsed()
	case deciderStarted, diskFailed, panicked, stalled:
		c.undisturbed = w.clock.Elapsed()
	case timePassed, finished:
		if len(c.dead) > 0 && w.decider != nil && w.decider.daemon != nil && w.decider.daemon.ready &&
			w.clock.Elapsed() > max(c.deaths[c.dead[0]], c.undisturbed)+deadHoldMax {
			return c.checkReleased(w)
		}
	}
	return nil
}

func (c *checkOwners) fileChanged(e fileChanged) {
	if e.job != nil && !e.job.Status().Final() && (!e.job.IsPending() || paths.IsJobLivelock(e.job.Livelock)) {
		return
	}
	for p := range c.diedWorking { // the order does not matter
		if p.job == e.id {
			delete(c.diedWorking, p)
		}
	}
}

// started checks a job that begins to work with its locks: none may be of a dead job whose end is not on the disk.
func (c *checkOwners) started(p *process) error {
	if p == nil || len(p.heldLocks) == 0 {
		return nil
	}
	for dead := range c.diedWorking {
		if l, clash := conflict(p.heldLocks, dead.heldLocks); clash && dead.job != p.job {
			return fmt.Errorf("job %d works with %s of job %d, which is dead and has no end on the disk", p.job, l, dead.job)
		}
	}
	return nil
}

// checkReleased checks that processes that died more than deadHoldMax ago hold and request no locks.
func (c *checkOwners) checkReleased(w *World) error {
	snapshot, err := w.lockState()
	if err != nil {
		return err
	}
	var due []*process
	for len(c.dead) > 0 && w.clock.Elapsed() > max(c.deaths[c.dead[0]], c.undisturbed)+deadHoldMax {
		due = append(due, c.dead[0])
		delete(c.deaths, c.dead[0])
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
		if p.livelock != "" && p.onDecider() && had[p.livelock] {
			return fmt.Errorf("process %d of job %d is dead for long, and has locks: %s", p.pid, p.job, lock.Encode(snapshot))
		}
	}
	return nil
}
