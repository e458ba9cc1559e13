// Package throughput runs much work in virtual time, to measure what the scheduler's decisions
// cost and how that grows.
//
// It is a discrete-event simulation of arrivals of jobs and ends of opcodes. Production code
// alone decides, called as the daemon's actors call it: core/opcode says what jobs lock,
// core/sched which job runs, core/lock which owner gets its locks. A chosen job has its slot
// while it waits for locks. Files, messages, processes and filter rules are not simulated;
// package sim has them. Only the jobs themselves take virtual time.
package throughput

import (
	"errors"
	"fmt"
	"time"

	"lockstep/core/config"
	"lockstep/sim/study"
)

// Work is a list of jobs, by number from 0.
type Work interface {
	Len() int
	// At is the arrival of job i since the beginning; it never falls with i.
	At(i int) time.Duration
	// Job returns the opcodes of job i, at least one. It is called again when needed, so that
	// pending jobs need no memory for them.
	Job(i int) []study.Opcode
}

// Options are the conditions of a run.
type Options struct {
	// Slots is the number of run slots, at least 1.
	Slots int
	// Settings are valid settings of lockstep.
	Settings config.Settings
	// OnJob, if set, is called for each job that has ended or, in a Growth, was enqueued.
	OnJob func()

	// Clairvoyant: the order OrderExpected knows how long each opcode will take.
	Clairvoyant bool

	onEvent func(event) // for tests: called when a job begins or ends to work with locks
}

// Outcome is the result of the work, in virtual seconds. The same work and options give the same
// one.
type Outcome struct {
	Jobs     int     `json:"jobs"`
	Makespan float64 `json:"makespan"` // from the first arrival to the last end
	PerHour  float64 `json:"jobs_per_hour"`
	// Waits are the times from a job's arrival until it has its locks and executes.
	study.Waits
	// SlotSeconds is the sum of the times from being chosen to the end. LockWaitSeconds is the
	// part in which no opcode executes.
	SlotSeconds     float64 `json:"slot_seconds"`
	LockWaitSeconds float64 `json:"lock_wait_slot_seconds"`
	// PeakPending is the largest number of jobs without a slot.
	PeakPending int `json:"peak_pending"`
	// Events is the number of arrivals, those of one moment counting once, and of ends of
	// opcodes.
	Events int `json:"events"`
}

// Cost is the real time and memory of a run. It differs from run to run.
type Cost struct {
	Seconds       float64 `json:"seconds"`
	JobsPerSecond float64 `json:"jobs_per_second"`
	// Arrivals and Ends are the times of the scheduler's core alone: all calls that one event
	// causes at its moment.
	Arrivals Spread `json:"arrivals"`
	Ends     Spread `json:"ends"`
	Memory   Memory `json:"memory"`
}

// Result is the outcome and its cost.
type Result struct {
	Outcome Outcome `json:"outcome"`
	Cost    Cost    `json:"cost"`
}

// Run runs all of the work. The error says that the work cannot be done.
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

// run steps until every job has ended, or until a step fails.
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

// timeMax bounds virtual time, far below an overflow.
const timeMax = 200 * 365 * 24 * time.Hour

var errEndless = errors.New("the work takes more than 200 years of virtual time: take less of it")

// errStuck cannot happen as long as each owner of locks ends.
func errStuck(w *engine) error {
	return fmt.Errorf("%d of %d jobs have ended and nothing more happens: %d wait for a slot, %d have one",
		w.ended, w.work.Len(), w.sched.Len(), w.sched.SlotsInUse())
}
