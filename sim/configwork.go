package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/actors/conn"
)

// configWork is the work of the clients that change the configuration in a run over random work. It has its own dice, so that the
// other work of a seed does not depend on it.
//
// A client makes sessions, one after the other. A session is a process with a livelock, as a job of Ganeti: it makes some calls
// to the gateway of WConfD, sends a call again after a lost answer, and ends in order or dies.
type configWork struct {
	world    *World
	rng      *rand.Rand
	requests *requestLog
	left     int // sessions left, over all clients
	busy     int // clients that are not done
	sessions int // sessions so far
}

// ConfigSeeds is the usual value of runOptions.Config: these clients cost time.
const ConfigSeeds = 16

// configDice separates the dice of this work from others of the same seed.
const configDice = 0xc0f1c

func newConfigWork(w *World, clients, sessions int, recipe *Recipe) *configWork {
	dice := rand.NewPCG(w.options.Seed, configDice)
	work := &configWork{world: w, rng: rand.New(dice), requests: newRequestLog(dice, recipe), left: sessions, busy: clients}
	for range clients {
		work.think(w.newClient())
	}
	return work
}

func (k *configWork) done() bool { return k == nil || k.busy == 0 }

// think schedules the next session of a client after a pause.
func (k *configWork) think(c *client) {
	pause := time.Duration(k.rng.IntN(3000)) * time.Millisecond
	k.requests.scheduleNext(c, pause, func() { k.session(c) })
}

func (k *configWork) session(c *client) {
	if what := k.requests.begin(c, func() requestKind {
		if k.left == 0 {
			return requestNone
		}
		return requestConfig
	}); what == requestNone {
		k.busy--
		return
	}
	k.left--
	k.sessions++
	newConfigSession(k, c).begin()
}

// configSession is a process that changes the configuration.
type configSession struct {
	work    *configWork
	client  *client
	world   *World
	number  int
	rng     *rand.Rand
	process *process
	rpc     *rpcClient
	marks   int // marks so far, see newMark
	left    int // actions left

	endedAt time.Duration // time of the end of the process, since the world began

	ips   []string // addresses that the session has reserved and may commit
	disks int      // disks so far
	taken []string // addresses that the session has reserved by name and committed
}

func newConfigSession(k *configWork, c *client) *configSession {
	w := k.world
	s := &configSession{work: k, client: c, world: w, number: k.sessions, rng: rand.New(rand.NewPCG(k.rng.Uint64(), configDice))}
	m := w.nodes[0].machine
	if w.decider != nil {
		m = w.decider.machine
	}
	p := m.startClient(fmt.Sprintf("session_%d", s.number))
	m.sessions = append(m.sessions, s)
	s.process = p
	s.rpc = &rpcClient{world: w, node: m.node, thread: p.thread, wconf: true, mayDrop: true, peer: conn.Peer{PID: p.pid, Program: "gnt-sim"}}
	s.left = 1 + s.rng.IntN(5)
	return s
}

// begin makes the first call of a session. Some sessions die at a random moment.
func (s *configSession) begin() {
	s.process.whenEnded(s.ended)
	s.tracef("begins, pid %d", s.process.pid)
	if s.rng.IntN(5) < 2 {
		s.world.clock.After(time.Duration(s.rng.IntN(3000))*time.Millisecond, s.process.life, func() { s.process.kill("SIGKILL") })
	}
	s.process.then(s.next)
}

// next makes the next action after a pause, or ends the session after the last one.
func (s *configSession) next() {
	if s.left == 0 {
		s.leave()
		return
	}
	s.left--
	pause := time.Duration(s.rng.IntN(400)) * time.Millisecond
	if s.rng.IntN(2) == 0 {
		pause = meeting - s.world.clock.Elapsed()%meeting
	}
	s.later(pause, s.act)
}

// meeting is the interval of the times at which many sessions act, so that their calls meet in the daemon.
const meeting = 200 * time.Millisecond

// leave ends the session in order: its reservations are dropped, its lock file is removed. Some sessions omit the former.
func (s *configSession) leave() {
	exit := func() {
		delete(s.process.machine.livelocks, s.process.livelock)
		s.process.ended("exit status 0")
	}
	if s.rng.IntN(4) == 0 {
		exit()
		return
	}
	s.drop(exit)
}

// ended is called once, when the process of the session has ended. Its client thinks about the next session.
func (s *configSession) ended() {
	m := s.process.machine
	s.endedAt = s.world.clock.Elapsed()
	m.sessions = slices.DeleteFunc(m.sessions, func(other *configSession) bool { return other == s })
	s.rpc.hangUp()
	s.world.notify(sessionEnded{s})
	s.work.think(s.client)
}

func (s *configSession) later(d time.Duration, f func()) {
	s.world.clock.After(d, s.process.life, func() { s.process.then(f) })
}

// identity is the client identity of the session in calls.
func (s *configSession) identity() []any {
	return []any{fmt.Sprintf("sim-%d", s.number), s.process.livelock, s.process.pid}
}

// newMark makes a text that no other change writes.
func (s *configSession) newMark() string {
	s.marks++
	return fmt.Sprintf("mark-%d-%d", s.number, s.marks)
}

func (s *configSession) tracef(format string, args ...any) {
	s.world.trace.addf(topicClient, "session %d: %s", s.number, fmt.Sprintf(format, args...))
}
