package sim

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/luxi/call"
	"lockstep/core/access"
	"lockstep/core/config"
	"lockstep/core/config/model"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/sim/kernel"
	"lockstep/supervisor"
)

// daemon is one incarnation of lockstepd: the production tree with ports of this
// world.
type daemon struct {
	world     *World
	node      *node
	number    int
	life      *kernel.Lifetime
	env       *kit.Env
	ports     supervisor.Ports
	settings  supervisor.Settings
	tree      *supervisor.Running     // nil: this node is not the master
	nodeTree  *supervisor.RunningNode // nil: the node is not in a cluster
	done      <-chan struct{}         // closed when the daemon has failed or stopped
	mailboxes *mailboxes
	accept    *kernel.Thread // thread of the listener
	conns     []*simConn
	tunnels   []*tunnel // to masters, for clients of this node
	outputs   *outputs  // nil: no reader of output has come, and no process that takes readers
	requests  int
	queries   *queryServer
	ready     bool      // accepts connections
	stopping  bool      // Stop was called
	entrance  *entrance // nil: any number of connections
}

// prepare creates what is missing at a first start, as lockstepd does, and checks the queue.
func (n *node) prepare() error {
	if err := n.checkQueue(); err != nil {
		return err
	}
	if n.clustered() && !n.cluster.replica.Fresh() {
		if err := persistence.InitMember(n.disk); err != nil {
			return err
		}
	} else if _, err := persistence.InitQueue(n.disk); err != nil {
		return err
	}
	if n.world.mutations.DropsJournal && n.machine.boots > n.bootsSeen && n.disk.Find(paths.ConfigJournalPath) != nil {
		n.bootsSeen = n.machine.boots
		if err := n.disk.Remove("config-journal", paths.ConfigJournalPath); err != nil {
			return err
		}
	}
	if err := n.noteRunDir(); err != nil {
		return err
	}
	return n.firstConfig()
}

func newDaemon(n *node) *daemon {
	w := n.world
	d := &daemon{world: w, node: n, number: n.daemons, life: &kernel.Lifetime{}}
	d.accept = kernel.NewThread(w.kernel, d.life)
	if w.crowd != nil {
		d.entrance = newEntrance()
	}
	alter := w.mutations.Alter
	if w.mutations.NewAlter != nil {
		alter = w.mutations.NewAlter()
	}
	boxes := &mailboxes{kernel: w.kernel, life: d.life, observe: n.onDelivery, alter: alter}
	d.mailboxes = boxes
	d.env = kit.New(kit.Options{
		Log:     traceLog(w.trace, n.prefix()),
		Clock:   actorClock{w.clock, d.life},
		Mailbox: boxes.produce,
		Rand:    w.rng.Uint64,
	})
	n.machine.lastPid++
	livelock := n.machine.newLivelock(persistence.DaemonLivelock, n.machine.lastPid, nil)
	d.ports = supervisor.Ports{
		Env:       d.env,
		Files:     n.disk,
		Processes: newSpawner(d),
		Accounts:  accounts{d},
		Owners:    newOwnerWatch(d, livelock),
		Callers:   newCallerWatch(d),
	}
	d.ports.Console = w.options.Browsers
	d.queries = &queryServer{daemon: d}
	d.ports.Confd = d.queries
	d.settings = supervisor.Settings{
		Livelock:       livelock,
		Daemon:         simDaemonUser,
		Access:         access.Policy{DaemonUID: simDaemonUser.UID, SocketGID: socketGID, SocketGroup: socketGroup, Ganeti: w.options.Ganeti},
		BootID:         n.machine.boot(),
		Locks:          lock.Settings{Hierarchy: lock.Implied, BypassAfter: bypassAfter},
		About:          call.About{PID: n.machine.lastPid},
		NewUUID:        w.newUUID,
		Random:         w.randomOctets,
		MaxStarts:      w.options.Starts,
		Writers:        w.options.Writers,
		Catalogue:      opcode.Builtin(),
		Limits:         supervisor.DefaultLimits(),
		Patience:       w.mutations.Patience,
		StartUnblocked: w.mutations.StartUnblocked,
		GanetiJobs:     w.options.Ganeti,
	}
	return d
}

// actorClock is the clock of the actors of one daemon.
type actorClock struct {
	clock *kernel.Clock
	life  *kernel.Lifetime
}

var _ kit.Clock = actorClock{}

func (c actorClock) Now() time.Time { return c.clock.Now() }

func (c actorClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return c.clock.After(d, c.life, f)
}

// startAlone starts the actors of a node without a cluster.
func (d *daemon) startAlone() {
	tree, err := supervisor.Tree(d.ports, d.settings)
	if err != nil {
		panic(fmt.Errorf("sim: %w", err)) // a bug of the simulator
	}
	d.tree, d.done = tree, tree.Done
	d.node.daemon = d
	d.node.tracef(topicDaemon, "daemon %d starts", d.number)
	d.world.notify(daemonStarted{})
	d.world.notify(deciderStarted{})
	d.requestOK(tree.Root, &messages.AnnounceQueue{}, readyMax, d.started)
}

// firstConfig creates the configuration of a cluster of one node if there is none, as lockstepd
// does.
func (n *node) firstConfig() error {
	if n.disk.Find(paths.ConfigPath) != nil {
		return nil
	}
	w := n.world
	if err := n.firstSessions(); err != nil {
		return err
	}
	if err := n.disk.Replace("config", paths.ConfigPath, configOf(w.options.Slots+w.mutations.MoreSlots, w.options.Networks)); err != nil {
		return err
	}
	return n.disk.SyncDir("config", ".")
}

// plainConfig is the configuration of a new cluster, without what the daemon passes on to Ganeti's programs: that is most of the
// content, and every start and change would parse it.
var plainConfig = sync.OnceValue(func() *model.Config {
	c, err := config.New(config.Identity{ClusterName: "sim", NodeName: "n1", NodeUUID: "n1-uuid", GroupUUID: "group-uuid"})
	if err != nil {
		panic(fmt.Errorf("sim: %w", err))
	}
	e := c.Edit()
	cluster := c.Cluster.Value
	cluster.HVParams, cluster.DiskParams, cluster.DataCollectors, cluster.HVState = nil, nil, nil, nil
	e.SetCluster(cluster)
	plain, _ := e.Commit(0)
	return plain
})

// The network of the clients that change the configuration.
const (
	simNetwork     = "network-uuid"
	simNetworkForm = "10.1.0.%d"
	simNetworkText = `{"name": "net", "network": "10.1.0.0/26", "uuid": "network-uuid", "serial_no": 1}`

	// plainNetwork is a network whose addresses are not used.
	plainNetwork     = "plain-network-uuid"
	plainNetworkText = `{"name": "plain", "network": "10.2.0.0/28", "uuid": "plain-network-uuid", "serial_no": 1}`
)

// configOf is the configuration of a new cluster. withNetwork adds a network with an address pool.
func configOf(slots int, withNetwork bool) []byte {
	c, err := config.Edit(plainConfig(), 0, config.ConfigChange{Cluster: map[string][]byte{"max_running_jobs": []byte(strconv.Itoa(slots))}})
	if err != nil {
		panic(fmt.Errorf("sim: %w", err))
	}
	if !withNetwork {
		return c.JSON()
	}
	e := c.Edit()
	for uuid, text := range map[string]string{simNetwork: simNetworkText, plainNetwork: plainNetworkText} {
		network, err := model.Networks.Decode([]byte(text))
		if err != nil {
			panic(fmt.Errorf("sim: %w", err))
		}
		model.Networks.Put(e, uuid, network.Value)
	}
	c, _ = e.Commit(0)
	return c.JSON()
}

func (w *World) randomOctets(count int) []byte {
	octets := make([]byte, count)
	for i := range octets {
		octets[i] = byte(w.rng.Uint32())
	}
	return octets
}

func (w *World) newUUID() string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", w.rng.Uint32(), w.rng.Uint64()&(1<<48-1))
}

// bypassAfter is lockstepd's default.
const bypassAfter = 30 * time.Second

// started is called with the readiness of the queue: lockstepd listens when the queue accepts
// requests.
func (d *daemon) started(ready bool) {
	if !ready {
		d.node.tracef(topicDaemon, "daemon %d cannot read the queue", d.number)
		d.node.endDaemon()
		return
	}
	d.ready = true
	d.node.tracef(topicDaemon, "daemon %d takes connections", d.number)
}

// onDelivery is called before each message to an actor.
func (n *node) onDelivery(actor string, m any, kind messageKind) panicWhen {
	w, message := n.world, messageName(m)
	if w.injector.disabled {
		return noPanic
	}
	w.deliveries++
	w.trace.add(topicDelivery, n.prefix()+actor, message)
	if n == w.decider {
		switch m := m.(type) {
		case *messages.PickJob:
			w.notify(jobPicked{m.Id})
		case *messages.JobReturned:
			w.notify(jobReturned{m.Id})
		case *messages.StartWaitChanged:
			w.notify(waitShown{m.Id, m.Wait})
		case *messages.QueueStarted:
			w.notify(queueStarted{})
		}
	}
	when := w.orderedPanic(actor, message, kind)
	if when == noPanic {
		when = w.injector.panics(kind)
	}
	if when != noPanic {
		n.tracef(topicFault, "%s panics over %s", actor, message)
		w.panics++
		w.notify(panicked{})
	}
	return when
}

// orderedPanic is a panic that a scenario orders.
type orderedPanic struct {
	actor, message string // "": any
	nth            int    // from 1
	when           panicWhen
}

func (w *World) orderedPanic(actor, message string, kind messageKind) panicWhen {
	for i, p := range w.orderedPanics {
		if p.actor != "" && p.actor != actor || p.message != "" && p.message != message {
			continue
		}
		if kind == frameworkMessage || kind == startedMessage && p.when == panicBefore {
			continue // the library and not the actor would panic
		}
		if p.nth--; p.nth > 0 {
			continue
		}
		w.orderedPanics = append(w.orderedPanics[:i:i], w.orderedPanics[i+1:]...)
		return p.when
	}
	return noPanic
}

// dial connects to the daemon of a node; nil if there is none, or no slot for the client.
func (n *node) dial(from *rpcClient) *simConn {
	d := n.daemon
	if d == nil || !d.ready || d.stopping {
		return nil
	}
	c := &simConn{daemon: d, thread: kernel.NewThread(n.world.kernel, d.life), from: from, rpc: from}
	if !from.wconf && from.tunnel == nil && !d.entrance.admit(c) {
		return nil
	}
	d.conns = append(d.conns, c)
	d.accept.Do(func() { d.env.System().Root.Send(d.gateway(from.wconf), &conn.Opened{Conn: c, Peer: from.peer}) })
	if n.clustered() {
		n.world.clock.After(servedMax, d.life, c.closeUnserved)
	}
	return c
}

// gateway is the actor that gets new connections now: of WConfD, of the queue, or of a node that is not the master.
func (d *daemon) gateway(wconf bool) *actor.PID {
	switch {
	case d.tree == nil:
		return d.nodeTree.Standby
	case wconf:
		return d.tree.Wconfd
	default:
		return d.tree.Luxi
	}
}

// requestOK sends a request to an actor, and calls done once, with whether an answer came in
// time.
func (d *daemon) requestOK(who *actor.PID, question any, limit time.Duration, done func(answered bool)) {
	d.request(who, question, limit, func(answer any) { done(answer != nil) })
}

// request sends a request to an actor, and calls done once, with its answer, or with nil if none
// came in time.
func (d *daemon) request(who *actor.PID, question any, limit time.Duration, done func(answer any)) {
	a := &pendingRequest{}
	var stop func() bool
	a.done = func(answer any) {
		a.done = func(any) {}
		stop()
		done(answer)
	}
	stop = d.world.clock.After(limit, d.life, func() { a.done(nil) })
	d.requests++
	pid, _ := d.env.System().ProcessRegistry.Add(a, fmt.Sprintf("asking-%d", d.requests))
	d.env.System().Root.RequestWithCustomSender(who, question, pid)
}

// pendingRequest is the library's process that waits for an answer.
type pendingRequest struct{ done func(answer any) }

func (a *pendingRequest) SendUserMessage(_ *actor.PID, msg any) {
	answer := actor.UnwrapEnvelopeMessage(msg)
	if _, nobody := answer.(*actor.DeadLetterResponse); nobody {
		answer = nil
	}
	a.done(answer)
}

func (*pendingRequest) SendSystemMessage(*actor.PID, any) {}
func (*pendingRequest) Stop(*actor.PID)                   {}
