package main

import (
	"context"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"lockstep/cmd/internal/term"
)

// bench is one run of the program.
type bench struct {
	ctx      context.Context
	self     string // path of this program
	programs string // directory of the programs
	root     string // the temporary directory
	machine  machine
	rounds   int
	sizes    sizes
	bar      *term.Bar
	daemons  []*daemon
	dirs     int

	samples map[string][]sample // by name of the measurement
	notRun  map[string]string   // why this machine cannot make a measurement, by its name
}

// sample is the result of one round.
type sample struct {
	value float64 // in the unit of the measurement
	n     int     // number of operations of which value is the mean
}

// sizes are the amounts of work of a round.
type sizes struct {
	quick                       bool
	submits                     int // by one client
	submitters                  int // submissions of each of the 64 clients
	many                        int // jobs of one submission
	serialJobs                  int // jobs run in sequence
	jobs                        int // jobs submitted together
	chain                       int
	queued                      int // a hundred thousand
	output                      int // bytes of one command
	locks, wakes                int
	idle                        time.Duration
	fewInstances, manyInstances int           // of which many are 20 MB of configuration
	updating                    time.Duration // of changes of the configuration
}

var (
	fullSizes = sizes{submits: 200, submitters: 10, many: 1000, serialJobs: 20, jobs: 300, chain: 100,
		queued: 100_000, output: 2_000_000_000, locks: 1000, wakes: 50, idle: 5 * time.Second,
		fewInstances: 10, manyInstances: 10_000, updating: 2 * time.Second}
	quickSizes = sizes{quick: true, submits: 40, submitters: 3, many: 200, serialJobs: 5, jobs: 60, chain: 10,
		queued: 2000, output: 50_000_000, locks: 100, wakes: 10, idle: time.Second,
		fewInstances: 10, manyInstances: 10_000, updating: 300 * time.Millisecond}
)

// clients is the number of concurrent submitters.
const clients = 64

// scenario makes related measurements, with its own daemon if it needs one.
type scenario struct {
	name         string
	measurements []string // names of measurements
	run          func(*bench) error
	ofCluster    bool // it is measured with --cluster
}

// each runs the rounds of a scenario, and ends early on an interrupt.
func (b *bench) each(rounds int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range rounds {
			if b.ctx.Err() != nil || !yield(i) {
				return
			}
			b.bar.Step()
		}
	}
}

// alternate runs all steps, in every other round in reverse order: pending disk writes of one step
// must not always slow down the same other step.
func alternate(round int, steps ...func() error) error {
	if round%2 == 1 {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// record adds a sample, in the unit of the measurement.
func (b *bench) record(name string, value float64, n int) {
	b.samples[name] = append(b.samples[name], sample{value, n})
}

// recordTime adds the time of one operation to the samples with a name.
func (b *bench) recordTime(name string, took time.Duration) {
	b.record(name, float64(took.Nanoseconds()), 1)
}

// recordRate adds the number of operations per second.
func (b *bench) recordRate(name string, took time.Duration, n int) {
	b.record(name, float64(n)/took.Seconds(), n)
}

// timeEach carries out do n times and adds the median time to the samples with a name.
func (b *bench) timeEach(name string, n int, do func() error) error {
	times := make([]float64, n)
	for i := range times {
		began := time.Now()
		if err := do(); err != nil {
			return err
		}
		times[i] = float64(time.Since(began).Nanoseconds())
	}
	b.record(name, median(times), n)
	return nil
}

func (b *bench) program(name string) string { return filepath.Join(b.programs, name) }

// newDir is the path of a new directory. Files of a scenario stay until the end: their removal
// would slow down the next scenario.
func (b *bench) newDir() string {
	b.dirs++
	return filepath.Join(b.root, strconv.Itoa(b.dirs))
}
