package sim

import (
	"time"

	"lockstep/core/jobproc"
)

// mayGoOn looks at the lease, and ends the process where it is over, as in
// lockstep-job: without another word in the job's file.
func (p *process) mayGoOn() bool {
	if p.life.over || p.ending {
		return false
	}
	if p.machine.node.holds() {
		return true
	}
	p.leaseOver()
	return false
}

// watchLease looks every now and then.
func (p *process) watchLease() {
	if !p.machine.node.clustered() {
		return
	}
	w := p.machine.world
	w.clock.after(time.Duration(w.rng.Int64N(int64(jobproc.LeaseProbe)))+time.Millisecond, p.life, func() {
		if p.mayGoOn() {
			p.watchLease()
		}
	})
}

// leaseOver ends the process, and its command before it.
func (p *process) leaseOver() {
	m := p.machine
	m.node.say(TopicProcess, "job %d: process ends: its node may not be the master any more", p.job)
	p.ending = true
	p.thread.queue = nil
	p.thread = newThread(m.world.steps, &life{over: true})
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
