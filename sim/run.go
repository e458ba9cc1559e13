package sim

import (
	"math/rand/v2"
	"time"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// runOptions are the options of a run over random work.
type runOptions struct {
	Steps     uint64          // steps with faults; later ones are without
	Faults    map[string]bool // kinds allowed, see parseFaults
	Nodes     int             // 1 or less: one, without a cluster
	Config    int             // about one of so many seeds has clients that change the configuration; 0: none
	Readers   int             // about one of so many seeds has clients that only ask; 0: none
	Crowd     int             // in about one of so many seeds a user takes all connections that the daemon gives; 0: none
	Removals  int             // in about one of so many seeds, of one node, an operator removes files of ended jobs; 0: none
	Hands     int             // in about one of so many seeds an operator changes the run directory and settings.json between starts; 0: none
	Programs  int             // about one of so many seeds has programs that compete with jobs for locks; 0: none
	Holders   int             // in about one of so many seeds job programs take time to load, and clients hold jobs meanwhile; 0: none
	Followers int             // about one of so many seeds has clients that follow the output of their jobs; 0: none
	Progress  int             // about one of so many seeds has clients that look at the progress of commands; 0: none
	Users     int             // about one of so many seeds has clients of several accounts with different roles; 0: none
	Tries     int             // about one of so many seeds has clients whose commands have policies of tries; 0: none
	Schedules int             // about one of so many seeds has clients with schedules; 0: none
	Times     int             // about one of so many seeds has clients whose jobs start at times; 0: none
	Ganeti    int             // in about one of so many seeds Ganeti's program runs the jobs of its opcodes, on one node; 0: none
	Mutations Mutations
	Sink      func(Line)
	// Recipe, if set, selects work and faults of the seed.
	Recipe *Recipe
}

// Recipe is everything that happens to a run from outside. Result has the full recipe of a
// seed. A part of it is another run.
type Recipe struct {
	Faults []Fault `json:"strikes"`
	// Requests are the requests of clients and operators; nil: the seed's own.
	Requests []Request `json:"asks"`
	// Order, if not 0, is the seed of the order of steps.
	Order uint64 `json:"order,omitempty"`
}

// Result is the result of a run.
type Result struct {
	Seed       uint64
	Steps      uint64
	Deliveries uint64 // messages to actors
	Sum        uint64 // equal for two runs if and only if their traces are
	Err        error  // a *Violation
	Last       []Line
	Recipe     Recipe
}

// Bounds of a run, after its faults have stopped.
const (
	endMax        = 2 * time.Hour
	endStepsMax   = 1_000_000
	finalRetryMax = 2 * time.Minute
	linesShown    = 60
)

// simulate makes the run of a seed, which decides the size of the world, the work and the faults. The options decide the rest.
func simulate(seed uint64, o runOptions) Result {
	rng := rand.New(rand.NewPCG(seed, 0xd1ce))
	clients := configClients(seed, o.Config)
	browsers, users := browserCount(seed), userCount(seed, o.Users)
	groups, guarded := groupsOf(seed)
	w := New(Options{
		Seed:       seed,
		Networks:   clients > 0,
		Browsers:   browsers > 0,
		Users:      users > 0,
		Ganeti:     o.Nodes <= 1 && users == 0 && ganetiSeed(seed, o.Ganeti),
		Groups:     groups,
		Guard:      guarded,
		Slots:      1 + rng.IntN(4),
		Starts:     1 + rng.IntN(3),
		Writers:    1 + rng.IntN(4),
		ReportMax:  1 << (20 * (seed % 2)),
		FaultRates: drawFaultRates(rng, rand.New(rand.NewPCG(seed, 0xfa17)), o.Faults),
		Sink:       o.Sink,
		Nodes:      o.Nodes,
		Mutations:  o.Mutations,
	})
	if w.oracle != nil {
		w.injector.clusterRates = drawClusterFaultRates(rand.New(rand.NewPCG(seed, 0xc1a5)), o.Faults)
		if mixesTimes(seed) {
			w.times.mix(seed)
		}
	}
	work := newWorkload(w, 1+rng.IntN(4), 4+rng.IntN(20), o.Recipe)
	if clients > 0 {
		w.config = newConfigWork(w, clients, 4+4*clients, o.Recipe)
	}
	if browsers > 0 {
		w.browsers = newBrowsers(w, browsers, 2+3*browsers, o.Recipe)
	}
	if readers := readerCount(seed, o.Readers); readers > 0 {
		w.readers = newReaders(w, readers, 40*readers, o.Recipe)
	}
	if holders := holderCount(seed, o.Holders); holders > 0 {
		w.holders = newHolders(w, holders)
	}
	w.addOthers(seed, o)
	if users > 0 {
		w.users = newUsers(w, users)
	}
	if o.Recipe != nil {
		w.injector.replay(o.Recipe.Faults)
		if o.Recipe.Order != 0 {
			w.dice.Seed(o.Recipe.Order, orderDice)
		}
	}
	w.runWork(work, o.Steps)
	r := Result{Seed: seed, Steps: w.stepCount, Deliveries: w.deliveries, Sum: w.Sum(), Err: w.Err(), Last: w.Last(linesShown)}
	if o.Recipe == nil {
		r.Recipe = Recipe{Faults: w.injector.injected, Requests: work.requests.recorded}
		if w.config != nil {
			r.Recipe.Requests = append(r.Recipe.Requests, w.config.requests.recorded...)
		}
		if w.browsers != nil {
			r.Recipe.Requests = append(r.Recipe.Requests, w.browsers.requests.recorded...)
		}
		if w.readers != nil {
			r.Recipe.Requests = append(r.Recipe.Requests, w.readers.requests.recorded...)
		}
	} else {
		r.Recipe = *o.Recipe
	}
	return r
}

// addOthers adds what is beside the clients of the work: an operator between the starts of daemons, a crowd, programs, and on a single node
// an operator who removes files.
func (w *World) addOthers(seed uint64, o runOptions) {
	w.hands = newHands(w, seed, o.Hands)
	if w.oracle == nil {
		w.removals = newRemovals(w, seed, o.Removals)
	}
	w.crowd = newCrowd(w, seed, o.Crowd)
	if programs := programCount(seed, o.Programs); programs > 0 {
		w.programWork = newProgramWork(w, programs)
	}
	if followers := followerCount(seed, o.Followers); followers > 0 {
		w.followers = newFollowers(w, followers)
	}
	if clients := progressCount(seed, o.Progress); clients > 0 {
		w.progressWork = newProgressWork(w, clients)
	}
	if clients := tryCount(seed, o.Tries); clients > 0 {
		w.tryWork = newTryWork(w, clients)
	}
	if clients := scheduleCount(seed, o.Schedules); clients > 0 {
		w.scheduleWork = newScheduleWork(w, clients)
	}
	if clients := timeCount(seed, o.Times); clients > 0 {
		w.timeWork = newTimeWork(w, clients)
	}
}

// configClients is the number of clients that change the configuration in the run of a seed: 1 to 3 in one of oneOf seeds, otherwise 0.
func configClients(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, configDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + int(rng.Uint32()%3)
}

const (
	// GanetiSeeds is the usual value of runOptions.Ganeti.
	GanetiSeeds = 6
	// ganetiDice separates the dice of this choice from others of the same seed.
	ganetiDice = 0x6a7e
)

// ganetiSeed reports whether Ganeti's program runs jobs in the run of a seed.
func ganetiSeed(seed uint64, oneOf int) bool {
	return oneOf > 0 && rand.New(rand.NewPCG(seed, ganetiDice)).IntN(oneOf) == 0
}

// groupDice separates the dice of this choice from others of the same seed.
const groupDice = 0x96095

// groupsOf reports whether machines have control groups in the run of a seed, in half of the seeds, and also a guard, in half of these.
func groupsOf(seed uint64) (groups, guarded bool) {
	rng := rand.New(rand.NewPCG(seed, groupDice))
	groups = rng.IntN(2) == 0
	return groups, groups && rng.IntN(2) == 0
}

// browserCount is the number of browsers in the run of a seed: 1 to 3 in one of browserSeeds seeds, otherwise 0.
func browserCount(seed uint64) int {
	rng := rand.New(rand.NewPCG(seed, browserDice))
	if rng.IntN(browserSeeds) > 0 {
		return 0
	}
	return 1 + rng.IntN(3)
}

// runWork does the work under faults, at most for so many steps, and then ends the faults and lets everything end.
func (w *World) runWork(work *workload, steps uint64) {
	w.restartAfter = restartDelay
	for _, n := range w.nodes {
		n.startAgain()
	}
	for w.stepCount < steps && !w.workDone(work) && w.Step() {
	}
	w.injector.stop()
	for _, n := range w.nodes {
		n.disk.Heal()
	}
	w.deleteRules()
	if w.oracle != nil {
		w.cancelUndecidable()
	}
	w.runToEnd(work)
}

// runToEnd steps until everything has ended, or its time is up.
func (w *World) runToEnd(work *workload) {
	for again := true; again; again = w.violation == nil && !w.workDone(work) && w.releaseLost() {
		limit, end := w.stepCount+endStepsMax, w.clock.Now().Add(endMax)
		for !w.workDone(work) && w.stepCount < limit && w.clock.Now().Before(end) && w.Step() {
		}
	}
	// The daemon may not have seen an end yet: its longest retry.
	w.RunFor(finalRetryMax)
	if w.violation == nil {
		w.finish()
	}
}

// workDone reports whether no work is left, and no step can change what a checker sees.
func (w *World) workDone(work *workload) bool {
	return work.done() &&
		w.config.done() &&
		w.browsers.done() &&
		w.readers.done() &&
		w.holders.done() &&
		w.programWork.done() &&
		w.followers.done() &&
		w.progressWork.done() &&
		w.users.done() &&
		w.tryWork.done() &&
		w.scheduleWork.done() &&
		w.timeWork.done() &&
		w.crowd.done() &&
		w.removals.done() &&
		w.kernel.Idle() &&
		w.unfinished() == nil
}

// finish asks the daemon for all jobs until it answers, and runs the checks of a finished run.
func (w *World) finish() {
	asked, answered := w.newClient(), false
	var ask func()
	ask = func() {
		asked.list(func(rows []listed, err error) {
			w.finalListing, answered = rows, err == nil
			if err != nil {
				asked.later(time.Second, ask)
			}
		})
	}
	ask()
	for end := w.clock.Now().Add(endMax); !answered && w.clock.Now().Before(end) && w.Step(); {
	}
	w.RunReady()
	if w.violation == nil {
		w.notify(finished{})
	}
}

// serial is the last id given, as on the disk; 0 if that cannot be read.
func (w *World) serial() int64 { return serialOn(w.disk) }

func serialOn(disk *simdisk.Disk) int64 {
	f := disk.Find(paths.SerialPath)
	if f == nil {
		return 0
	}
	serial, err := paths.ParseSerial(f.Data)
	if err != nil {
		return 0
	}
	return serial
}

func isFinal(status string) bool {
	s, known := job.ParseStatus(status)
	return known && s.Final()
}
