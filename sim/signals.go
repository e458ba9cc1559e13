package sim

import (
	"time"

	"lockstep/actors/jobs"
	"lockstep/core/jobproc"
)

// endGrace is how long a process may take to end after the order to end now, as in edge/jobprocess.
const endGrace = 20 * time.Second

// Tell signals a process. A priority travels beside its signal in a file, of which the latest content counts.
func (s *spawner) Tell(start uint64, order jobs.Order) {
	p := s.live[start]
	if p == nil {
		return
	}
	m := p.machine
	m.world.trace.addf(topicProcess, "job %d: process is told %s", p.job, orderText(order))
	if order.Kind == jobs.TakePriority {
		m.priorities[p.job] = order.Priority
	}
	switch {
	case p.ganetis && order.Kind == jobs.StopBeforeNext && p.executesNothing():
		p.canceled = true
		p.kill("SIGKILL")
		return
	case p.ganetis && order.Kind == jobs.EndNow:
		p.kill("SIGKILL")
		return
	}
	p.signal(order.Kind)
	if order.Kind == jobs.EndNow {
		m.world.clock.After(endGrace, s.daemon.life, func() { s.forceKill(start, p) })
	}
}

// Probe has nothing to do: the end of a process and of its livelock are one event here.
func (s *spawner) Probe(uint64) {}

// forceKill kills a job process that does not end on request.
func (s *spawner) forceKill(start uint64, p *process) {
	if s.live[start] == p {
		p.kill("SIGKILL")
		p.machine.endCommands(p.livelock, true)
	}
}

func (s *spawner) track(start uint64, p *process) { s.live[start] = p }

func (s *spawner) untrack(start uint64) {
	if p := s.live[start]; p != nil {
		delete(s.live, start)
		delete(p.machine.priorities, p.job) // a priority that came too late must not stay
	}
}

func orderText(o jobs.Order) string {
	switch o.Kind {
	case jobs.StopBeforeNext:
		return "to stop before the next opcode"
	case jobs.EndNow:
		return "to end now"
	default:
		return "to take another priority"
	}
}

// signal is delivered when the process has begun its job, because it handles signals from then on.
func (p *process) signal(kind jobs.OrderKind) {
	if p.ganeti != nil {
		p.then(func() { p.ganeti.signalled(kind) })
		return
	}
	if p.shell == nil {
		p.signals = append(p.signals, kind)
		return
	}
	p.then(func() { p.shell.signalled(kind) })
}

func (s *shell) signalled(kind jobs.OrderKind) {
	switch kind {
	case jobs.StopBeforeNext:
		s.event(s.jobproc.CancelRequested)
	case jobs.EndNow:
		s.event(s.jobproc.KillRequested)
	case jobs.TakePriority:
		if priority, sent := s.process.machine.priorities[s.process.job]; sent {
			s.event(func(now time.Time) jobproc.Actions { return s.jobproc.PriorityChanged(now, priority) })
		}
	}
}
