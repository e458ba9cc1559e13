package sim

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/act"
	"lockstep/actors/core/config"
	"lockstep/actors/core/layout"
	"lockstep/actors/core/lock"
	"lockstep/actors/core/opcode"
	"lockstep/actors/luxi"
	"lockstep/actors/socket"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/supervisor"
)

// daemon is one incarnation of lockstepd: the production tree with ports of this
// world.
type daemon struct {
	world    *World
	number   int
	life     *life
	env      *act.Env
	tree     *supervisor.Running
	boxes    *mailboxes
	accept   *thread // of who takes connections
	conns    []*conn
	asked    int
	ready    bool // takes connections
	stopping bool // was told to
}

// Start starts a daemon as lockstepd does. The error is the disk's: it has not
// started then.
func (w *World) Start() error {
	if w.daemon != nil {
		panic("sim: there is a daemon")
	}
	w.daemons++
	if _, err := persistence.InitQueue(w.disk); err != nil {
		w.trace.say(TopicDaemon, "daemon %d cannot start: %v", w.daemons, err)
		return err
	}
	if err := w.firstConfig(); err != nil {
		w.trace.say(TopicDaemon, "daemon %d cannot start: %v", w.daemons, err)
		return err
	}
	w.disk.plants = w.plants.Disk // not before there is a queue
	d := &daemon{world: w, number: w.daemons, life: &life{}}
	d.accept = newThread(w.steps, d.life)
	boxes := &mailboxes{steps: w.steps, life: d.life, sees: w.delivered, alter: w.plants.Alter}
	d.boxes = boxes
	d.env = act.New(act.Options{Log: traceLog(w.trace), Clock: actorClock{w.clock, d.life}, Mailbox: boxes.produce, Rand: w.rng.Uint64})
	boxes.env = d.env
	w.machine.lastPid++
	livelock := w.machine.newLivelock(persistence.DaemonLivelock, w.machine.lastPid, nil)
	tree, err := supervisor.Tree(
		supervisor.Ports{Env: d.env, Files: w.disk, Processes: newSpawner(d), Owners: newWatchman(d, livelock)},
		supervisor.Settings{Livelock: livelock, Boot: w.machine.boot(), Locks: lock.Settings{Lattice: lock.Implied, BypassAfter: bypassAfter},
			About: luxi.About{PID: w.machine.lastPid}, NewUUID: w.newUUID, MaxStarts: w.options.Starts,
			Writers: w.options.Writers, Catalogue: opcode.Builtin(), Limits: supervisor.DefaultLimits()})
	if err != nil {
		panic(fmt.Errorf("sim: %w", err)) // the world is built wrongly
	}
	d.tree = tree
	w.daemon = d
	w.trace.say(TopicDaemon, "daemon %d starts", d.number)
	w.notify(daemonStarted{})
	d.ask(&messages.AskReady{}, readyMax, d.started)
	return nil
}

// firstConfig makes the configuration of a cluster of one node, as lockstepd does
// where there is none.
func (w *World) firstConfig() error {
	if w.disk.find(layout.ConfigPath) != nil {
		return nil
	}
	if err := w.disk.Replace("config", layout.ConfigPath, configOf(w.options.Slots+w.plants.MoreSlots)); err != nil {
		return err
	}
	return w.disk.SyncDir("config", ".")
}

// plainConfig is the configuration of a new cluster.
var plainConfig = sync.OnceValue(func() []byte {
	content, err := config.New(config.Identity{ClusterName: "sim", NodeName: "n1", NodeUUID: "n1-uuid", GroupUUID: "group-uuid"})
	if err != nil {
		panic(fmt.Errorf("sim: %w", err))
	}
	return content
})

func configOf(slots int) []byte {
	content, err := config.Edit(plainConfig(), 0, config.Change{Cluster: map[string][]byte{"max_running_jobs": []byte(strconv.Itoa(slots))}})
	if err != nil {
		panic(fmt.Errorf("sim: %w", err))
	}
	return content
}

func (w *World) newUUID() string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", w.rng.Uint32(), w.rng.Uint64()&(1<<48-1))
}

// bypassAfter is lockstepd's default.
const bypassAfter = 30 * time.Second

// started: lockstepd listens when its queue takes requests.
func (d *daemon) started(ready bool) {
	if !ready {
		d.world.trace.say(TopicDaemon, "daemon %d cannot read the queue", d.number)
		d.world.endDaemon()
		return
	}
	d.ready = true
	d.world.trace.say(TopicDaemon, "daemon %d takes connections", d.number)
}

// delivered is told of each message to an actor.
func (w *World) delivered(actor string, m any, kind messageKind) panicWhen {
	message := messageName(m)
	w.trace.add(TopicDelivery, actor, message)
	switch m := m.(type) {
	case *messages.PickJob:
		w.notify(jobPicked{m.Id})
	case *messages.JobReturned:
		w.notify(jobReturned{m.Id})
	}
	when := w.orderedPanic(actor, message, kind)
	if when == noPanic {
		when = w.chaos.panics(kind)
	}
	if when != noPanic {
		w.trace.say(TopicFault, "%s panics over %s", actor, message)
		w.notify(panicked{})
	}
	return when
}

// orderedPanic is one that a scenario has asked for.
type orderedPanic struct {
	actor, message string // "": any
	nth            int    // from 1
	when           panicWhen
}

func (w *World) orderedPanic(actor, message string, kind messageKind) panicWhen {
	for i, p := range w.panics {
		if p.actor != "" && p.actor != actor || p.message != "" && p.message != message {
			continue
		}
		if kind == frameworkMessage || kind == startedMessage && p.when == panicBefore {
			continue // that would be the framework's panic
		}
		if p.nth--; p.nth > 0 {
			continue
		}
		w.panics = append(w.panics[:i:i], w.panics[i+1:]...)
		return p.when
	}
	return noPanic
}

// dial connects to the daemon; nil if there is none.
func (w *World) dial(from *caller) *conn {
	d := w.daemon
	if d == nil || !d.ready || d.stopping {
		return nil
	}
	c := &conn{daemon: d, thread: newThread(w.steps, d.life), caller: from}
	d.conns = append(d.conns, c)
	gateway := d.tree.Luxi
	if from.wconf {
		gateway = d.tree.Wconf
	}
	d.accept.do(func() { d.env.System().Root.Send(gateway, &socket.Opened{Conn: c}) })
	return c
}

// Crash ends the daemon at once; processes and the disk stay.
func (w *World) Crash() {
	w.trace.say(TopicFault, "daemon %d crashes", w.daemon.number)
	w.endDaemon()
}

func (w *World) endDaemon() {
	d := w.daemon
	w.daemon = nil
	d.life.over = true
	for _, p := range w.machine.processes {
		p.stdin.writerLeaves()
		p.stdout.readerLeaves()
	}
	for _, c := range d.conns {
		if c.caller != nil {
			c.caller.lost(c)
		}
	}
	if w.restarts > 0 {
		w.clock.after(w.restarts, w.life, w.startAgain)
	}
}

func (w *World) startAgain() {
	if w.daemon == nil && w.Start() != nil {
		w.clock.after(w.restarts, w.life, w.startAgain)
	}
}

// Reboot takes the machine down: no daemon, no process, nothing unsynced is left.
func (w *World) Reboot() {
	w.trace.say(TopicFault, "the machine loses power")
	w.machine.losePower()
	w.disk.LosePower(w.rng)
	if w.daemon != nil {
		w.endDaemon()
	}
	w.notify(powerLost{})
}

// supervise notices a daemon that cannot go on, or has stopped as it was told.
func (w *World) supervise() {
	if w.daemon == nil {
		return
	}
	select {
	case <-w.daemon.tree.Done:
		if w.daemon.stopping {
			w.trace.say(TopicDaemon, "daemon %d has stopped", w.daemon.number)
		} else {
			w.trace.say(TopicDaemon, "daemon %d cannot go on", w.daemon.number)
		}
		w.endDaemon()
	default:
	}
}

// As in lockstepd.
const (
	readyMax = 10 * time.Minute
	drainMax = 10 * time.Second
)

// Stop tells the daemon to stop, in order.
func (w *World) Stop() {
	d := w.daemon
	w.trace.say(TopicDaemon, "daemon %d is told to stop", d.number)
	d.stopping = true
	d.ask(&messages.Drain{}, drainMax, func(bool) { d.env.System().Root.Stop(d.tree.Root) })
}

// ask asks the tree; done is told once whether there was an answer in time.
func (d *daemon) ask(question any, limit time.Duration, done func(answered bool)) {
	a := &asking{}
	var stop func() bool
	a.done = func(answered bool) {
		a.done = func(bool) {}
		stop()
		done(answered)
	}
	stop = d.world.clock.after(limit, d.life, func() { a.done(false) })
	d.asked++
	pid, _ := d.env.System().ProcessRegistry.Add(a, fmt.Sprintf("asking-%d", d.asked))
	d.env.System().Root.RequestWithCustomSender(d.tree.Root, question, pid)
}

// asking is a process, in the library's sense, that waits for an answer.
type asking struct{ done func(answered bool) }

func (a *asking) SendUserMessage(_ *actor.PID, msg any) {
	_, nobody := actor.UnwrapEnvelopeMessage(msg).(*actor.DeadLetterResponse)
	a.done(!nobody)
}

func (*asking) SendSystemMessage(*actor.PID, any) {}
func (*asking) Stop(*actor.PID)                   {}
