package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/jobs"
	"lockstep/messages"
	"lockstep/sim/kernel"
)

// As in edge/jobprocess.
const (
	messageMax    = 30 * time.Second
	killStep      = 100 * time.Millisecond
	probeInterval = 250 * time.Millisecond
)

// spawner is the port to job processes of one daemon. Its pending actions end with that daemon.
type spawner struct {
	daemon   *daemon
	attempts map[uint64]*attempt // by attempt: handshake in progress
	live     map[uint64]*process // by attempt: accepts signals
}

func newSpawner(d *daemon) *spawner {
	return &spawner{daemon: d, attempts: map[uint64]*attempt{}, live: map[uint64]*process{}}
}

var _ jobs.Processes = (*spawner)(nil)

// attempt is the daemon's side of one attempt, which is a goroutine in production.
type attempt struct {
	spawner    *spawner
	start      uint64
	id         int64
	ganetis    bool // the job is of Ganeti's program
	to         *actor.PID
	number     int64 // of the start in the life of the job
	thread     *kernel.Thread
	process    *process
	livelock   string
	launchSpec []byte
	permitted  bool   // Confirm was called
	abandoned  bool   // Abandon was called
	onDecision func() // called after either
}

func (s *spawner) newThread() *kernel.Thread {
	return kernel.NewThread(s.daemon.world.kernel, s.daemon.life)
}

// Start spawns the process of a job and goes through the handshake with it.
func (s *spawner) Start(start uint64, started jobs.Job, to *actor.PID) {
	id := started.ID
	a := &attempt{
		spawner: s,
		start:   start,
		id:      id,
		number:  started.Start,
		ganetis: started.Program == messages.JobProgram_GANETI_JOB,
		to:      to,
		thread:  s.newThread(),
	}
	s.attempts[start] = a
	a.thread.Do(a.spawn)
}

// Confirm permits the process of an attempt to act, and gives it the launch spec. Without such an attempt it does nothing.
func (s *spawner) Confirm(start uint64, launchSpec []byte) {
	if a := s.attempts[start]; a != nil && !a.permitted {
		a.launchSpec, a.permitted = launchSpec, true
		a.wake()
	}
}

// Abandon ends an attempt that is not confirmed. Without such an attempt it does nothing.
func (s *spawner) Abandon(start uint64) {
	if a := s.attempts[start]; a != nil {
		a.abandoned = true
		a.wake()
	}
}

func (s *spawner) send(to *actor.PID, message any) {
	if _, gone := message.(*messages.ProcessGone); gone && s.daemon.world.mutations.SilentEnds {
		return
	}
	s.daemon.env.System().Root.Send(to, message)
}

func (a *attempt) send(message any) { a.spawner.send(a.to, message) }

func (a *attempt) clock() *kernel.Clock { return a.spawner.daemon.world.clock }

func (a *attempt) spawn() {
	w := a.spawner.daemon.world
	if w.refusesToSpawn(a.id) {
		const text = "fork: resource temporarily unavailable"
		delete(a.spawner.attempts, a.start)
		w.notify(spawnRefused{a.id})
		a.send(&messages.HandshakeFailed{Attempt: a.start, Text: text})
		a.send(&messages.ProcessGone{Attempt: a.start, Text: text, NeverSpawned: true})
		return
	}
	a.process = a.spawner.daemon.node.machine.spawn(a.id)
	a.process.ganetis = a.ganetis
	a.process.start = a.number
	a.receive("the process did not name its lock file", func(frame []byte) {
		a.livelock = string(frame)
		if a.ganetis {
			a.process.machine.bootNotes[a.id] = a.livelock
		}
		a.send(&messages.ProcessNamed{Attempt: a.start, Pid: int64(a.process.pid), Livelock: a.livelock})
		a.onDecision = func() { a.thread.Do(a.decide) }
		a.wake()
	})
}

func (a *attempt) wake() {
	if a.onDecision != nil && (a.permitted || a.abandoned) {
		decided := a.onDecision
		a.onDecision = nil
		decided()
	}
}

// decide continues the handshake after Confirm or Abandon. A permission counts, even if the attempt is abandoned too.
func (a *attempt) decide() {
	if !a.permitted {
		a.fail("the start was called off")
		return
	}
	if err := a.process.stdin.write(nil); err != nil {
		a.fail(fmt.Sprintf("cannot give the permission to start: %v", err))
		return
	}
	a.process.permitted = true
	if a.ganetis {
		a.process.watchFile(a.thread, func() { a.send(&messages.ProcessReported{Id: a.id, Livelock: a.livelock}) })
	}
	a.spawner.daemon.world.notify(processPermitted{a.process})
	a.receive("the process did not take its permission to start", func([]byte) {
		if err := a.process.stdin.write(a.launchSpec); err != nil {
			a.fail(fmt.Sprintf("cannot hand over to the process: %v", err))
			return
		}
		a.process.launched = true
		a.closePipes()
		a.spawner.track(a.start, a.process)
		a.thread.Do(func() { a.send(&messages.ProcessConfirmed{Attempt: a.start}) })
		a.reap(false)
	})
}

func (a *attempt) receive(problem string, then func([]byte)) {
	a.process.stdout.read(a.clock(), a.thread, messageMax, func(frame []byte, err error) {
		if err != nil {
			a.fail(fmt.Sprintf("%s: %v", problem, err))
			return
		}
		then(frame)
	})
}

// closePipes closes the pipes of the start handshake and forgets the attempt: Confirm and Abandon have no effect from here on. A child
// without permission takes the end of its pipe as a refusal.
func (a *attempt) closePipes() {
	delete(a.spawner.attempts, a.start)
	a.process.stdin.closeWriter()
	a.process.stdout.closeReader()
}

// fail ends an attempt and reports that. Its process gets SIGABRT and, if that does not end it, SIGKILL.
func (a *attempt) fail(text string) {
	a.closePipes()
	a.send(&messages.HandshakeFailed{Attempt: a.start, Text: text})
	p := a.process
	a.clock().After(2*killStep, a.thread.Life, func() {
		if !p.hung {
			p.kill("SIGABRT")
		}
	})
	a.clock().After(3*killStep, a.thread.Life, func() { p.kill("SIGKILL") })
	a.reap(true)
}

// reap waits for the end, kills the orphans, and then reports the end. neverActed says that the
// process did not get its complete launch spec.
func (a *attempt) reap(neverActed bool) {
	p := a.process
	p.whenEnded(func() {
		a.thread.Do(func() {
			a.spawner.untrack(a.start)
			p.machine.cleanUp(a.livelock, true, a.thread.Life, func(neverBegan bool) {
				a.thread.Do(func() {
					a.send(&messages.ProcessGone{Attempt: a.start, Text: p.exitText, NeverActed: neverActed || neverBegan, Canceled: p.canceled})
				})
			})
		})
	})
}

// Adopt watches a process of a former daemon, and reports when it has gone, at once if it has. Tell works as soon as Adopt returns.
func (s *spawner) Adopt(start uint64, adopted jobs.Job, pid int64, livelock string, to *actor.PID) {
	m, t := s.daemon.node.machine, s.newThread()
	if m.alive(livelock) {
		s.track(start, m.livelocks[livelock])
	}
	p := m.livelocks[livelock]
	if p != nil && p.ganetis {
		p.watchFile(t, func() { s.send(to, &messages.ProcessReported{Id: adopted.ID, Livelock: livelock}) })
		p.wrote() // it may have written before
	}
	seen := false
	gone := func() {
		s.untrack(start)
		m.cleanUp(livelock, seen, t.Life, func(neverBegan bool) {
			t.Do(func() {
				s.send(to, &messages.ProcessGone{Attempt: start, NeverActed: neverBegan, Canceled: p != nil && p.canceled,
					Text: "its process has ended while no daemon was watching, or was not its child"})
			})
		})
	}
	var probe func()
	probe = func() {
		if !m.alive(livelock) {
			gone()
			return
		}
		s.daemon.world.clock.After(probeInterval, s.daemon.life, func() { t.Do(probe) })
	}
	t.Do(func() {
		if s.daemon.world.mutations.BlindAdoption {
			gone()
			return
		}
		if p := m.find(pid); p != nil && m.alive(livelock) {
			p.whenEnded(func() { seen = true; t.Do(probe) })
			return
		}
		probe()
	})
}
