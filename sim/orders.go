package sim

import (
	"time"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/jobproc"
)

// As in jobs/osproc and lockstep-job.
const (
	endGrace  = 20 * time.Second
	killGrace = 10 * time.Second
)

// Tell signals a process. A priority travels beside its signal, in a file: the
// latest one counts.
func (s *spawner) Tell(start uint64, order jobs.Order) {
	p := s.living[start]
	if p == nil {
		return
	}
	m := p.machine
	m.world.trace.say(TopicProcess, "job %d: process is told %s", p.job, shownOrder(order))
	if order.Kind == jobs.TakePriority {
		m.priorities[p.job] = order.Priority
	}
	p.signal(order.Kind)
	if order.Kind == jobs.EndNow {
		m.world.clock.after(endGrace, s.daemon.life, func() { s.insist(start, p) })
	}
}

// insist kills a job process that does not end although it was told to.
func (s *spawner) insist(start uint64, p *process) {
	if s.living[start] == p {
		p.kill("SIGKILL")
		p.machine.endCommands(p.livelock, true)
	}
}

func (s *spawner) enter(start uint64, p *process) { s.living[start] = p }

func (s *spawner) leave(start uint64) {
	if p := s.living[start]; p != nil {
		delete(s.living, start)
		delete(p.machine.priorities, p.job) // one that came too late must not lie about
	}
}

func shownOrder(o jobs.Order) string {
	switch o.Kind {
	case jobs.StopBeforeNext:
		return "to stop before the next opcode"
	case jobs.EndNow:
		return "to end now"
	default:
		return "to take another priority"
	}
}

// signal reaches the process when it looks for signals: not before it has begun
// its job.
func (p *process) signal(kind jobs.OrderKind) {
	if p.driver == nil {
		p.signals = append(p.signals, kind)
		return
	}
	p.then(func() { p.driver.event(func() { p.driver.signalled(kind) }) })
}

func (d *driver) signalled(kind jobs.OrderKind) {
	switch kind {
	case jobs.StopBeforeNext:
		d.cancel()
	case jobs.EndNow:
		d.killed = true
		if d.kill != nil {
			d.kill()
		}
		d.cancel() // nothing, in the middle of an opcode
	case jobs.TakePriority:
		m := d.process.machine
		priority, sent := m.priorities[d.process.job]
		if !sent {
			return
		}
		d.locker.reprioritise(priority)
		d.follow(d.machine.Reprioritise(priority))
	}
}

func (d *driver) cancel() {
	next := d.machine.Cancel(d.now())
	if next.Do == jobproc.Exit {
		d.locker.stop()
	}
	d.follow(next)
}

// endedOnRequest is how an opcode ends that a client had killed.
func endedOnRequest() jobproc.Outcome {
	return jobproc.Outcome{Failed: true, Result: job.ErrorResult("OpExecError", "Ended on request", map[string]any{"signal": "SIGTERM"})}
}
