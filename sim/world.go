package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	cmap "github.com/orcaman/concurrent-map"

	"lockstep/actors/jobs"
	"lockstep/core/answer"
	"lockstep/sim/consensus"
	"lockstep/sim/kernel"
	"lockstep/sim/simdisk"
)

// Options are the options of a world. The zero value is a world of one node without faults.
type Options struct {
	Seed    uint64
	Nodes   int // 1 or less: one, without a cluster
	Slots   int // run slots; 0: 2
	Starts  int // start handshakes in progress; 0: 2
	Writers int // of each node; 0: 3
	// ReportMax bounds the job file in a report, in bytes; 0: 1 MiB.
	ReportMax  int
	Networks   bool // the first configuration has a network, see simNetwork
	Browsers   bool // daemons keep sessions of the console
	Users      bool // clients have accounts and roles; nodes of a cluster tell each other their version, and forward clients
	Ganeti     bool // Ganeti's program runs Ganeti's opcodes. One node
	Rests      bool // a cluster without work passes over its heartbeats
	Groups     bool // machines have control groups: each command has its own
	Guard      bool // a guard runs on each machine. It needs Groups
	FaultRates FaultRates
	Checkers   []Checker // nil: all
	Mutations  Mutations
	Sink       func(Line) // gets every line of the trace
}

// Mutations are bugs built in on purpose: each breaks a promise on which the daemon rests. They
// are for the tests of the checkers.
type Mutations struct {
	Disk simdisk.Mutations
	// BlindAdoption: a process of a former daemon is reported as dead at once.
	BlindAdoption bool
	// SilentEnds: the end of a process is not reported.
	SilentEnds bool
	// UnsyncedEnds: job processes do not sync their last write.
	UnsyncedEnds bool
	// Survivors: a forced end of an opcode leaves the processes outside the command's group.
	Survivors bool
	// NoMarks: nothing is taken for the proof that a process has not begun its job.
	NoMarks bool
	// LateMark: a job process revokes its mark that it has not begun the job with its first write.
	LateMark bool
	// StaleMark: the mark of a process of an earlier boot is believed.
	StaleMark bool
	// MissingIsProof: a missing lock file is taken for the proof that a process has not begun its job.
	MissingIsProof bool
	// MarkerOnly: orphans of a process whose end the daemon did not see are found by their marker
	// alone.
	MarkerOnly bool
	// ForgottenGroups: a daemon kills no control groups of jobs whose end it did not see.
	ForgottenGroups bool
	// IdleGuard: the guard kills nothing.
	IdleGuard bool
	// AnyLivelock: a job process begins whatever lock file its job names.
	AnyLivelock bool
	// PatientProcesses: job processes take a missing directory of the queue for any other error of the disk.
	PatientProcesses bool
	// OneClient: an entrance counts all clients as one.
	OneClient bool
	// AnyRunDir: a daemon starts with any run directory, whatever lives in the former one.
	AnyRunDir bool
	// StartUnblocked: the scheduler starts no job before its locks are free.
	StartUnblocked bool
	// Patience is the daemon's limit for jobs that cannot be started.
	Patience jobs.RetryLimit
	// MoreSlots is the number of run slots that the daemon wrongly believes in.
	MoreSlots int
	// Log are the mutations of the consensus log.
	Log consensus.Mutations
	// NoLease: job processes do not check whether their node is still the master.
	NoLease bool
	// DelayReports: a job process that asks for permission reports nothing until it has it.
	DelayReports bool
	// AdmitLostQueue: a node that has lost its queue starts all the same.
	AdmitLostQueue bool
	// LeavesUnsynced: an orderly stop removes the mark that the files need the log, and does not make them durable.
	LeavesUnsynced bool
	// Alter replaces a message to an actor: by nothing if it returns nil, by more messages if it returns several.
	Alter func(actor string, message any) any
	// NewAlter makes an Alter with a memory, one for each daemon.
	NewAlter func() func(actor string, message any) any
	// LosesPieces, DoublesPieces: a job process passes some output on in part, or twice.
	LosesPieces, DoublesPieces bool
	// DropsRest: a job process passes no output on at its end.
	DropsRest bool
	// EndlessReader: a job process waits for its reader without end.
	EndlessReader bool
	// DropsJournal: after a boot config.journal is removed before the daemon starts.
	DropsJournal bool
}

// World is one node with its clients, or a cluster of several.
type World struct {
	*node // the first node
	nodes []*node
	// disk has the promised files: those on the node's disk, or in a cluster those of the
	// committed entries, see oracle.
	disk    *simdisk.Disk
	oracle  *oracle // nil: no cluster
	log     *consensus.Log
	times   programTimes
	decider *node // the node whose daemon decides, or will decide when it has started; nil: unknown
	options Options
	// How often a client of RunBatches asks for estimates, and what gets them; nil: never.
	orderEvery time.Duration
	orderSeen  func(answer.Order)
	mutations  Mutations
	dice       *rand.PCG // the source of rng
	rng        *rand.Rand
	life       *kernel.Lifetime // lifetime of what outlives daemons and machines; it does not end
	kernel     *kernel.Kernel
	clock      *kernel.Clock
	trace      *trace
	injector   *injector

	guardDice *rand.Rand // for the first look of a guard

	clients     []*client
	submissions []*submission
	checkers    []Checker
	moments     map[processMoment][]func() // functions to run at a moment
	effective   *effectiveConfig
	disturbance disturbance
	audit       *audit     // nil: no checker uses it
	locks       *lockFiles // nil: not read yet
	violation   *Violation
	stepCount   uint64 // steps so far
	deliveries  uint64 // messages to actors so far
	// restartAfter is the time after which an ended daemon is started again, as by systemd; 0: it
	// is not.
	restartAfter time.Duration
	// orderedPanics are those that a scenario has ordered, by actor.
	orderedPanics []*orderedPanic
	// garbled says that job files were replaced from outside.
	garbled      bool
	config       *configWork   // nil: no client changes the configuration
	browsers     *browsers     // nil: no browser uses the console
	readers      *readers      // nil: no client only asks
	hands        *hands        // nil: no operator changes directories and files
	programWork  *programWork  // nil: no program competes for locks
	lostHolds    []int64       // jobs with a hold whose answer was lost
	removals     *removals     // nil: nobody removes files of jobs
	crowd        *crowd        // nil: connections are not bounded
	programs     []*program    // that live
	holders      *holders      // nil: job programs load in no time, and no client waits for starts
	followers    *followers    // nil: no client follows the output of jobs
	progressWork *progressWork // nil: no client looks at the progress of commands
	users        *users        // nil: all clients are of the daemon's user
	scheduleWork *scheduleWork // nil: no client has schedules
	tryWork      *tryWork      // nil: no command has a policy of tries
	timeWork     *timeWork     // nil: no job starts at a time
	panics       uint64        // injected panics so far
	finalListing []listed      // the daemon's list of jobs at the end

	startTimes map[string]bool // tags of jobs that start at a time
}

// oneShard makes actor systems cheap. Their thousand maps have many shards each, to reduce
// contention, which a simulation does not have.
var oneShard = sync.OnceFunc(func() { cmap.SHARD_COUNT = 1 })

// orderDice separates the dice for the order of steps from others of the same seed.
const orderDice = 0x10c4573b

// New makes a world with empty disks and running machines. No daemon runs.
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
	w := &World{
		options:   o,
		mutations: o.Mutations,
		dice:      dice,
		rng:       rng,
		life:      &kernel.Lifetime{},
		kernel:    kernel.New(rng),
		clock:     kernel.NewClock(),
		checkers:  o.Checkers,
		moments:   map[processMoment][]func(){},
		guardDice: rand.New(rand.NewPCG(o.Seed, groupDice)),

		startTimes: map[string]bool{},
	}
	w.trace = &trace{clock: w.clock, sum: fnvOffset, sink: o.Sink}
	w.populate()
	w.injector = newInjector(w, o.FaultRates)
	w.effective = newEffectiveConfig(w)
	if w.checkers == nil && len(w.nodes) > 1 {
		w.checkers = clusterCheckers()
	} else if w.checkers == nil {
		w.checkers = allCheckers()
	}
	if slices.Contains(w.checkers, Checker(checkRest{})) {
		w.audit = newAudit(w)
	}
	return w
}

// populate makes the nodes: one that is alone, or a cluster.
func (w *World) populate() {
	if w.options.Nodes > 1 {
		w.foundCluster()
		return
	}
	w.nodes = []*node{newNode(w, "n1")}
	w.node, w.disk, w.decider = w.nodes[0], w.nodes[0].disk, w.nodes[0]
}

// Step makes one step. The time moves when no step is possible. It returns false when no step
// will ever be possible, or a checker has failed.
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

// advance makes a step, or moves the time to the next timer; false: nothing is left to do.
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
	if w.options.Rests && w.log.Rests() {
		w.log.Skip(w.clock.Skip())
	}
	return w.clock.Fire()
}

// processMoment is a moment in the life of a job's process.
type processMoment struct {
	job  int64
	what momentKind
}

type momentKind uint8

const (
	momentAsks momentKind = iota // an opcode has ended, and the process asks to begin the next
	momentEnds                   // the process has written the job's end
)

// momentReached runs the functions that wait for a moment, once.
func (w *World) momentReached(m processMoment) {
	tell := w.moments[m]
	delete(w.moments, m)
	for _, f := range tell {
		f()
	}
}

// RunReady steps until no step is possible without moving the time.
func (w *World) RunReady() {
	for !w.kernel.Idle() && w.Step() {
	}
}

// RunFor steps until d has passed and no step is possible in that time.
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

// Steps is the number of steps so far.
func (w *World) Steps() uint64 { return w.stepCount }

// Sum is equal for two runs if and only if their traces are.
func (w *World) Sum() uint64 { return w.trace.sum }

// Last returns the latest lines of the trace, at most n.
func (w *World) Last(n int) []Line { return w.trace.last(n) }

// Err is the violation that a checker has found; nil: none.
func (w *World) Err() error {
	if w.violation == nil {
		return nil
	}
	return w.violation
}

// Violation says that a checker has found its invariant broken.
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
