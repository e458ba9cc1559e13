// Package monitor is the actor behind MonD: it knows what every collector of its node reports (mond.md).
//
// It owns the reports, the histories of the collectors that need one, and what the configuration says of collectors. The queue,
// the lock manager, the configstore of the node and the replicator send it changes. It asks the port Sources to read what the
// kernel and programs say, for each collector when its interval has passed, and the distributor and the replicator for the states
// of other nodes. It shows each new Snapshot to the port Board, at most one within
// Pause. It takes no requests, and no actor waits for it.
//
// A collector that fails or does not answer is data of its own report, and delays no other. Nothing survives a crash: the next
// incarnation asks for everything again, and its histories start empty. Reports of the former incarnation are shown until then.
package monitor

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/configstore"
	"lockstep/actors/config/distributor"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/replicator"
	"lockstep/core/config/model"
	coremonitor "lockstep/core/monitor"
	"lockstep/messages"
)

const (
	// Pause is the least time between two snapshots.
	Pause = 100 * time.Millisecond
	// tick is how often the actor looks which collectors are due.
	tick = time.Second
	// askInterval is the pause between questions to the ConfDs of the candidates (mond.md 5).
	askInterval = 15 * time.Second
)

// Sources is the port that reads, on this node, what collectors report: files of the kernel and outputs of programs. Methods do not
// block.
type Sources interface {
	// Gather reads for a collector and sends one Gathered to the actor. While a reading for the collector is in progress,
	// which may last for ever, another request waits for its end, and only the latest one is answered.
	Gather(number uint64, collector string, to *actor.PID)
}

// Gathered answers Sources.Gather with what was read for one collector. Absent: this node has nothing to read. Err: the reading has
// failed.
type Gathered struct {
	Number    uint64
	Collector string
	Absent    bool
	Err       error
	Reading   coremonitor.Reading
}

// Board is the port to MonD's server, which shows clients the last snapshot. Show does not block.
type Board interface{ Show(s *coremonitor.Snapshot) }

// Candidates is the port to the ConfDs of all master candidates, for a node without a copy of the configuration. Methods do not block.
type Candidates interface {
	// Ask sends one Answered to the actor, with the freshest answer, in a few seconds at most.
	Ask(number uint64, node string, to *actor.PID)
}

// Answered answers Candidates.Ask with the best of their answers. Err: no candidate has answered.
type Answered struct {
	Number  uint64
	Answers coremonitor.Answers
	Err     error
}

// Config has the neighbours and ports of the actor that makes MonD's reports. Actors that the node does not have are nil.
type Config struct {
	Env     *kit.Env
	Sources Sources
	Board   Board
	Node    string // name of this node in the configuration
	Version string // of the daemon
	Started time.Time

	Queue, Locks *actor.PID
	ConfigStore  *actor.PID // the configstore of this node
	Distributor  *actor.PID // in Ganeti mode
	Replicator   *actor.PID // in a cluster: that of this node
	Candidates   Candidates // nil: this node has a copy of the configuration
	Release      string     // version of the ssconf files
}

// Props describes the actor that gathers what MonD's collectors report and shows it as snapshots.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "monitor", func(incarnation uint64) actor.Actor {
		cluster := coremonitor.NewCluster()
		if c.Replicator != nil {
			cluster.Changed(coremonitor.View{Role: coremonitor.Candidate})
		}
		return &monitor{config: c, incarnation: incarnation, number: incarnation << 32, stopTick: func() bool { return false },
			queue: coremonitor.NewQueue(), locks: coremonitor.NewLocks(), cluster: cluster,
			daemon: coremonitor.Daemon{Version: c.Version, Started: c.Started}, gatherers: newGatherers(c)}
	})
}

// monitor is the actor.
type monitor struct {
	config      Config
	incarnation uint64
	number      uint64 // of the last question
	stopTick    func() bool

	gatherers   []*gatherer // in the order of the listing
	configuring configuration
	queue       *coremonitor.Queue
	locks       *coremonitor.Locks
	cluster     *coremonitor.Cluster
	cpu         coremonitor.CPU
	xenCPU      coremonitor.XenCPU
	daemon      coremonitor.Daemon
	values      values
	askedNodes  uint64 // number of the open question for the states of the nodes; 0: none is open
	askedStock  uint64
	publishing  bool // a timer for the next snapshot runs
	hasChanged  bool // since the last snapshot
}

// Timers of one incarnation.
type (
	ticked     struct{ incarnation uint64 }
	publishDue struct{ incarnation uint64 }
)

func (w *monitor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		w.start(ctx)
	case *ticked:
		w.ticked(ctx, m)
	case *publishDue:
		w.publishDue(ctx, m)
	case *Gathered:
		w.gathered(ctx, m)
	case *messages.QueueStarted:
		w.queueStarted(ctx)
	case *messages.ListJobsResult:
		w.jobsListed(ctx, m)
	case *messages.JobStatesChanged:
		w.jobsChanged(ctx, m)
	case *messages.GetQueueStatusResult:
		w.queueAnswered(ctx, m)
	case *messages.LocksStarted:
		w.locksStarted(ctx)
	case *locks.OwnersPublished:
		w.locksChanged(ctx, m)
	case *configstore.CopyPublished:
		w.configChanged(ctx, m.Config, "")
	case *configstore.Loaded:
		w.configLoaded(ctx, m)
	case *Answered:
		w.candidatesAnswered(ctx, m)
	case *replicator.NodePublished:
		w.clusterChanged(ctx, m)
	case *messages.GetNodesResult:
		w.nodesAnswered(ctx, m)
	case *distributor.GetNodesResult:
		w.stockNodesAnswered(ctx, m)
	case *actor.Stopping, *actor.Restarting:
		w.stopTick()
	default:
		kit.Unexpected(ctx)
	}
}

func (w *monitor) now() time.Time { return w.config.Env.Clock().Now() }

func (w *monitor) next() uint64 {
	w.number++
	return w.number
}

// start asks every actor for its state, gathers what is due, and plans a snapshot.
func (w *monitor) start(ctx actor.Context) {
	w.askConfigStore(ctx)
	if w.config.Replicator != nil {
		ctx.Request(w.config.Replicator, &replicator.PublishNode{})
	} else {
		w.askMasters(ctx)
	}
	w.ticked(ctx, &ticked{w.incarnation})
	w.changed(ctx)
}

// askMasters asks the actors that only the master has. Those that are not started yet announce themselves later.
func (w *monitor) askMasters(ctx actor.Context) {
	if w.config.Locks != nil {
		ctx.Request(w.config.Locks, &locks.PublishOwners{})
	}
	if w.config.Queue != nil {
		w.queueStarted(ctx)
	}
}

// ticked begins what is due, and starts the timer of the next tick.
func (w *monitor) ticked(ctx actor.Context, m *ticked) {
	if m.incarnation != w.incarnation {
		return
	}
	w.stopTick = kit.SendAfter(w.config.Env.Clock(), ctx.ActorSystem(), tick, ctx.Self(), m)
	w.askCandidates(ctx)
	for _, g := range w.gatherers {
		w.gatherIfDue(ctx, g)
	}
}

// changed publishes a snapshot: at once, or after the pause since the last one.
func (w *monitor) changed(ctx actor.Context) {
	w.hasChanged = true
	if !w.publishing {
		w.publish(ctx)
	}
}

// publish shows a snapshot on the board and begins a pause, in which changes collect.
func (w *monitor) publish(ctx actor.Context) {
	w.hasChanged, w.publishing = false, true
	w.config.Board.Show(w.snapshot())
	kit.SendAfter(w.config.Env.Clock(), ctx.ActorSystem(), Pause, ctx.Self(), &publishDue{w.incarnation})
}

func (w *monitor) publishDue(ctx actor.Context, m *publishDue) {
	if m.incarnation != w.incarnation {
		return
	}
	if w.publishing = false; w.hasChanged {
		w.publish(ctx)
	}
}

// configuration is the configuration as far as this node knows it.
type configuration struct {
	current *model.Config      // nil: unknown
	failure string             // why it cannot be read; "": it can
	facts   *coremonitor.Facts // of current, or from the candidates; the last known ones stay
	factsOf *model.Config
	asked   uint64 // number of the open question to the candidates; 0: none is open
	askedAt time.Time
}
