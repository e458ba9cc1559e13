// Package throughput does much work in virtual time, to see what the scheduler's
// decisions cost and how that grows.
//
// It is a discrete-event simulation: jobs come and opcodes end. What is
// decided is decided by production code alone, called as the daemon's actors call
// it: core/opcode says what jobs lock, core/sched who runs, core/lock who gets its
// locks. A job that was chosen has its slot while it waits for them. What lies
// between the two in the daemon is not here: no files, messages, processes,
// filter rules; package sim has these. Everything but the jobs themselves takes
// no virtual time.
package throughput

import (
	"errors"
	"fmt"
	"time"

	"lockstep/core/config"
	"lockstep/sim/study"
)

// Work is jobs by number, from 0.
type Work interface {
	Len() int
	// At is when job i comes, since the beginning; it never falls with i.
	At(i int) time.Duration
	// Job is the opcodes of job i, at least one. It is asked for again when needed,
	// so that those who wait need no memory here.
	Job(i int) []study.Opcode
}

// Chained is work of which some jobs come only after the end of others.
type Chained interface {
	Work
	// After is the job after whose end job i comes, and how long after
	// at least; negative if there is none. There are no
	// circles.
	After(i int) (preceding int, think time.Duration)
}

// Options say under which conditions the work is done.
type Options struct {
	// Slots is how many jobs may run, at least 1.
	Slots int
	// Settings are lockstep's own, valid.
	Settings config.Settings
	// OnJob, if set, is called for each job that has ended or, in a Growth, been enqueued.
	OnJob func()

	onEvent func(event) // for tests: hears who begins and ends to work with what
}

// Outcome is what has become of the work, in virtual seconds. The same work and
// options give the same one.
type Outcome struct {
	Jobs     int     `json:"jobs"`
	Makespan float64 `json:"makespan"` // from the first job's coming to the last end
	PerHour  float64 `json:"jobs_per_hour"`
	// Waits are from a job's coming until it has its locks and executes.
	study.Waits
	// SlotSeconds are from being chosen to the end; LockWaitSeconds those of them in
	// which nothing executes.
	SlotSeconds     float64 `json:"slot_seconds"`
	LockWaitSeconds float64 `json:"lock_wait_slot_seconds"`
	// PeakPending is how many jobs had no slot at the worst moment.
	PeakPending int `json:"peak_pending"`
	// Events are arrivals, those of one moment counting once, and ends of opcodes.
	Events int `json:"events"`
}

// Cost is what it took, in real time and memory. It is another one each time.
type Cost struct {
	Seconds       float64 `json:"seconds"`
	JobsPerSecond float64 `json:"jobs_per_second"`
	// Arrivals and Ends are the scheduler's core alone: all calls that one event has
	// caused, until nothing more happens at that moment.
	Arrivals Spread `json:"arrivals"`
	Ends     Spread `json:"ends"`
	Memory   Memory `json:"memory"`
}

// Result is both.
type Result struct {
	Outcome Outcome `json:"outcome"`
	Cost    Cost    `json:"cost"`
}

// Run does all of the work. The error is about work that cannot be done.
func Run(work Work, o Options) (Result, error) {
	w := newEngine(work, o)
	w.watermark = newWatermark(w)
	began := time.Now()
	err := w.run()
	took := time.Since(began).Seconds()
	r := Result{Cost: Cost{Seconds: took, JobsPerSecond: float64(w.ended) / took,
		Arrivals: spreadOf(w.arrivals), Ends: spreadOf(w.ends), Memory: w.watermark.memory}}
	if err == nil {
		r.Outcome = w.outcome()
	}
	return r, err
}

// run steps until every job has ended.
func (w *engine) run() error {
	for w.ended < w.work.Len() {
		if err := w.step(); err != nil {
			return err
		}
		w.peakPending = max(w.peakPending, w.sched.Len())
		w.watermark.update(w.sched.Len())
	}
	return nil
}

func (w *engine) outcome() Outcome {
	o := Outcome{Jobs: w.ended, Makespan: (w.now - w.received[0]).Seconds(), SlotSeconds: w.slotTime.Seconds(),
		LockWaitSeconds: w.lockWait.Seconds(), PeakPending: w.peakPending, Events: len(w.arrivals) + len(w.ends)}
	o.PerHour = float64(o.Jobs) / max(o.Makespan, 1) * time.Hour.Seconds()
	o.Waits = study.Summarize(w.waits)
	return o
}

// timeMax bounds virtual time, far below where it overflows.
const timeMax = 200 * 365 * 24 * time.Hour

var errEndless = errors.New("the work takes more than 200 years of virtual time: take less of it")

// errStuck cannot happen as long as each owner of locks ends.
func errStuck(w *engine) error {
	return fmt.Errorf("%d of %d jobs have ended and nothing more happens: %d wait for a slot, %d have one",
		w.ended, w.work.Len(), w.sched.Len(), w.sched.SlotsInUse())
}
