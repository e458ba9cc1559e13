package sim

import (
	"time"

	"lockstep/core/jobproc"
)

// checkLease looks at the lease, and ends the process where it is over, as in
// lockstep-job: without another word in the job's file.
func (p *process) checkLease() bool {
	if p.life.over || p.leaseLost {
		return false
	}
	if p.machine.node.leaseHeld() {
		return true
	}
	p.endForLease()
	return false
}

// watchLease looks every now and then.
func (p *process) watchLease() {
	if !p.machine.node.clustered() {
		return
	}
	w := p.machine.world
	w.clock.after(time.Duration(w.rng.Int64N(int64(jobproc.LeaseProbe)))+time.Millisecond, p.life, func() {
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
	p.thread.queue = nil
	p.thread = newThread(m.world.kernel, &lifetime{over: true})
	for _, c := range m.commands {
		if c.process != p {
			continue
		}
		grace := jobproc.LeaseGrace
		if !c.script.stubborn {
			grace = time.Duration(m.world.rng.Int64N(int64(grace)))
		}
		m.world.clock.after(grace, p.life, func() {
			if !c.life.over {
				c.end("killed: the node is not the master any more")
			}
			p.kill("itself, the node is not the master any more")
		})
		return
	}
	p.kill("itself, the node is not the master any more")
}
