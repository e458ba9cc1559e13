package sim

import (
	"time"

	"lockstep/core/jobproc"
	"lockstep/sim/kernel"
)

// checkLease reports whether the lease runs, and ends the process if it is over, as in
// lockstep-job: the job's file is not written again.
func (p *process) checkLease() bool {
	if p.life.Over || p.leaseLost {
		return false
	}
	if p.machine.node.leaseHeld() {
		return true
	}
	p.endForLease()
	return false
}

// watchLease checks the lease repeatedly.
func (p *process) watchLease() {
	if !p.machine.node.clustered() {
		return
	}
	w := p.machine.world
	w.clock.After(time.Duration(w.rng.Int64N(int64(jobproc.LeaseProbe)))+time.Millisecond, p.life, func() {
		if p.checkLease() {
			p.watchLease()
		}
	})
}

// endForLease ends the process, and its command before it.
func (p *process) endForLease() {
	m := p.machine
	m.node.tracef(TopicProcess, "job %d: process ends: its node may not be the master any more", p.job)
	p.leaseLost = true
	p.thread.Drop()
	p.thread = kernel.NewThread(m.world.kernel, &kernel.Lifetime{Over: true})
	for _, c := range m.commands {
		if c.process != p {
			continue
		}
		grace := jobproc.LeaseGrace
		if !c.script.stubborn {
			grace = time.Duration(m.world.rng.Int64N(int64(grace)))
		}
		m.world.clock.After(grace, p.life, func() {
			if !c.life.Over {
				c.end("killed: the node is not the master any more")
			}
			p.kill("itself, the node is not the master any more")
		})
		return
	}
	p.kill("itself, the node is not the master any more")
}
