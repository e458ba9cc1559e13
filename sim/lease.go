package sim

import (
	"time"

	"lockstep/core/jobproc"
	"lockstep/sim/kernel"
)

// checkLease reports whether the lease is valid, and begins to end the process otherwise: the process writes and starts
// nothing more.
func (p *process) checkLease() bool {
	if p.life.Over || p.lease.Ending() {
		return false
	}
	p.observeLease()
	return !p.lease.Ending()
}

// watchLease looks at the lease of a process of a cluster again and again, from a random moment on.
func (p *process) watchLease() {
	if !p.machine.node.clustered() {
		return
	}
	w := p.machine.world
	w.clock.After(time.Duration(w.rng.Int64N(int64(jobproc.LeaseProbe))), p.life, p.probeLease)
}

func (p *process) probeLease() {
	if p.lease.Ending() {
		return // checkLease has seen the end before
	}
	if again := p.observeLease(); !p.lease.Ending() {
		p.machine.world.clock.After(again, p.life, p.probeLease)
	}
}

// observeLease looks at the lease and does what follows. While the process ends, it looks again until the end.
func (p *process) observeLease() (again time.Duration) {
	m := p.machine
	action, again := p.lease.Observe(m.world.clock.Now(), m.node.leaseExpired(), p.command() != nil)
	switch action {
	case jobproc.LeaseContinue:
	case jobproc.LeaseTerminate:
		p.stopForLease()
		if c := p.command(); !c.script.stubborn {
			m.world.clock.After(time.Duration(m.world.rng.Int64N(int64(jobproc.LeaseGrace))), c.life, func() {
				c.end("ended: the node is no longer the master")
			})
		}
	case jobproc.LeaseKill:
		p.stopForLease()
		m.endCommands(p.livelock, true)
		p.kill("itself, the node is no longer the master")
		return 0
	}
	if p.lease.Ending() {
		m.world.clock.After(again, p.life, func() { p.observeLease() })
	}
	return again
}

// stopForLease lets the process do nothing more but end: its steps are dropped.
func (p *process) stopForLease() {
	p.machine.node.tracef(topicProcess, "job %d: process ends: its node may no longer be the master", p.job)
	p.thread.Drop()
	p.thread = kernel.NewThread(p.machine.world.kernel, &kernel.Lifetime{Over: true})
}

// command is the running command of the process; nil: none.
func (p *process) command() *command {
	for _, c := range p.machine.commands {
		if c.process == p {
			return c
		}
	}
	return nil
}
