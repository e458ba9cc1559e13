package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	cmap "github.com/orcaman/concurrent-map"

	"lockstep/actors/jobs"
	"lockstep/sim/consensus"
	"lockstep/sim/kernel"
	"lockstep/sim/simdisk"
)

// Options say which world. The zero value is a plain one without faults.
type Options struct {
	Seed    uint64
	Nodes   int // 1 or less: one, which is alone
	Slots   int // run slots; 0: 2
	Starts  int // start handshakes in flight; 0: 2
	Writers int // 0: 3; of each node
	// ReportMax is how long a file may be to travel in a report; 0: 1 MiB.
	ReportMax  int
	FaultRates FaultRates
	Checkers   []Checker // nil: all
	Mutations  Mutations
	Sink       func(Line) // gets every line of the trace
}

// Mutations are faults built in on purpose: each breaks a promise on which the daemon rests.
// They are for the tests of the checkers.
type Mutations struct {
	Disk simdisk.Mutations
	// BlindAdoption: a process of a former daemon is said to be gone at once.
	BlindAdoption bool
	// SilentEnds: the end of a process is not reported.
	SilentEnds bool
	// UnsyncedEnds: job processes do not sync their last write.
	UnsyncedEnds bool
	// Survivors: a forced end of an opcode leaves what has left the command's group.
	Survivors bool
	// MarkerOnly: what is left of a process that the daemon did not see end is known by its
	// marker alone.
	MarkerOnly bool
	// AnyLivelock: a job process begins whatever lock file its job names.
	AnyLivelock bool
	// Patience is that of the daemon with jobs that cannot be started.
	Patience jobs.RetryLimit
	// MoreSlots: the daemon believes in so many more run slots than there are.
	MoreSlots int
	// Log are those of the consensus log.
	Log consensus.Mutations
	// NoLease: job processes do not check whether their node is still the master.
	NoLease bool
	// DelayReports: a job process that asks for permission reports nothing until
	// it has it.
	DelayReports bool
	// AdmitLostQueue: a node that has lost its queue starts all the same.
	AdmitLostQueue bool
	// Alter replaces a message to an actor; nil drops it.
	Alter func(actor string, message any) any
}

// World is one node with its clients, or a cluster of several.
type World struct {
	*node // the first
	nodes []*node
	// disk is what was promised: the node's own if it is alone; else what the
	// consensus log says that is committed, see oracle.
	disk      *simdisk.Disk
	oracle    *oracle // nil: the node is alone
	log       *consensus.Log
	decider   *node // whose daemon decides, or the next one will; nil: unknown
	options   Options
	mutations Mutations
	dice      *rand.PCG // of rng
	rng       *rand.Rand
	life      *kernel.Lifetime // of what outlives daemons and machines; never over
	kernel    *kernel.Kernel
	clock     *kernel.Clock
	trace     *trace
	injector  *injector

	clients     []*client
	submissions []*submission
	checkers    []Checker
	moments     map[processMoment][]func() // what runs at a moment
	effective   *effectiveConfig
	disturbance disturbance
	audit       *audit     // nil: no checker uses it
	locks       *lockFiles // nil: not read yet
	violation   *Violation
	stepCount   uint64 // steps so far
	deliveries  uint64 // messages to actors so far
	// restartAfter: a daemon that has ended is started again after so long, as
	// systemd would; 0: it is not.
	restartAfter time.Duration
	// orderedPanics are those that a scenario has ordered, by actor.
	orderedPanics []*orderedPanic
	// garbled: job files have been replaced from outside.
	garbled      bool
	finalListing []listed // what the daemon said at the end
}

// oneShard makes actor systems cheap: they hold a thousand maps with many shards each, for
// contention that a simulation does not have.
var oneShard = sync.OnceFunc(func() { cmap.SHARD_COUNT = 1 })

// orderDice separates the dice for the order of steps from others of the same seed.
const orderDice = 0x10c4573b

// New makes a world: its disk has directories, its machine runs, no daemon does.
func New(o Options) *World {
	oneShard()
	if o.Slots == 0 {
		o.Slots = 2
	}
	if o.Starts == 0 {
		o.Starts = 2
	}
	if o.Writers == 0 {
		o.Writers = 3
	}
	if o.ReportMax == 0 {
		o.ReportMax = 1 << 20
	}
	dice := rand.NewPCG(o.Seed, orderDice)
	rng := rand.New(dice)
	w := &World{options: o, mutations: o.Mutations, dice: dice, rng: rng, life: &kernel.Lifetime{}, kernel: kernel.New(rng), clock: kernel.NewClock(), checkers: o.Checkers, moments: map[processMoment][]func(){}}
	w.trace = &trace{clock: w.clock, sum: fnvOffset, sink: o.Sink}
	w.populate()
	w.injector = newInjector(w, o.FaultRates)
	w.effective = newEffectiveConfig(w)
	if w.checkers == nil && len(w.nodes) > 1 {
		w.checkers = ClusterCheckers()
	} else if w.checkers == nil {
		w.checkers = AllCheckers()
	}
	if slices.Contains(w.checkers, Checker(checkRest{})) {
		w.audit = newAudit(w)
	}
	return w
}

// populate makes the nodes.
func (w *World) populate() {
	if w.options.Nodes > 1 {
		w.foundCluster()
		return
	}
	w.nodes = []*node{newNode(w, "n1")}
	w.node, w.disk, w.decider = w.nodes[0], w.nodes[0].disk, w.nodes[0]
}

// Step lets one thing happen; the time moves when nothing can happen now. It returns false
// when nothing can ever happen again, or a checker has failed.
func (w *World) Step() bool {
	if w.violation != nil {
		return false
	}
	before := w.clock.Now()
	if !w.advance() {
		return false
	}
	w.stepCount++
	for _, n := range w.nodes {
		n.supervise()
	}
	w.injector.inject()
	if !w.clock.Now().Equal(before) {
		w.notify(timePassed{})
	}
	return w.violation == nil
}

// advance does what can be done now, or moves the time.
func (w *World) advance() bool {
	if w.injector.stalls() && w.clock.Fire() {
		w.notify(stalled{})
		return true
	}
	if w.kernel.Step() {
		return true
	}
	w.effective.quiescent()
	if w.audit != nil {
		w.audit.run()
	}
	return w.clock.Fire()
}

// processMoment is a moment in the run of a job's process.
type processMoment struct {
	job  int64
	what momentKind
}

type momentKind uint8

const (
	momentAsks momentKind = iota // an opcode has ended, and it asks to begin the next
	momentEnds                   // it has written the job's end
)

// momentReached runs the functions that wait for a moment.
func (w *World) momentReached(m processMoment) {
	tell := w.moments[m]
	delete(w.moments, m)
	for _, f := range tell {
		f()
	}
}

// RunReady steps until the time would have to move.
func (w *World) RunReady() {
	for !w.kernel.Idle() && w.Step() {
	}
}

// RunFor steps until so much time has passed, and nothing more can happen in it.
func (w *World) RunFor(d time.Duration) {
	end := w.clock.Now().Add(d)
	for {
		w.RunReady()
		at, any := w.clock.Next()
		if w.violation != nil || !any || at.After(end) {
			break
		}
		w.Step()
	}
	if w.clock.Now().Before(end) {
		w.clock.AdvanceTo(end)
	}
}

// Steps is how many steps there were; Sum stands for everything that happened.
func (w *World) Steps() uint64 { return w.stepCount }

// Sum is the same for two runs exactly if their traces are.
func (w *World) Sum() uint64 { return w.trace.sum }

// Last gives the latest lines of the trace, at most n.
func (w *World) Last(n int) []Line { return w.trace.last(n) }

// Err is the violation that a checker has found, if any.
func (w *World) Err() error {
	if w.violation == nil {
		return nil
	}
	return w.violation
}

// Violation is an invariant that a checker found broken.
type Violation struct {
	Checker string
	Step    uint64
	At      time.Duration
	Err     error
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s, at step %d (%.3f s): %v", v.Checker, v.Step, v.At.Seconds(), v.Err)
}

func (v *Violation) Unwrap() error { return v.Err }
