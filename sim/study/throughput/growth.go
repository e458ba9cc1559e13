package throughput

import "time"

// GrowthRow is the cost of a backlog of so many pending jobs.
type GrowthRow struct {
	Pending int `json:"pending"`
	// Enqueue is the mean time to enqueue one more job, in seconds.
	Enqueue float64 `json:"enqueue"`
	// Decisions are ends of jobs, each with all its consequences, and with the arrival of the job
	// that replaces the chosen one.
	Decisions Spread `json:"decisions"`
	Memory    Memory `json:"memory"`
}

// Sizes are the backlogs of a growth up to so many jobs: powers of ten from 1,000, and the
// greatest.
func Sizes(most int) []int {
	var sizes []int
	for n := 1000; n < most; n *= 10 {
		sizes = append(sizes, n)
	}
	return append(sizes, most)
}

// Growth enqueues so many jobs at one moment, fills the slots, and then ends that many jobs,
// while new jobs keep the backlog as long as it is. Each job of the work arrives at least once.
func Growth(work Work, o Options, pending, decisions int) (GrowthRow, error) {
	w := newEngine(work, o)
	before := heapInUse()
	next := 0
	following := func() int {
		next++
		return (next - 1) % work.Len()
	}
	for range pending {
		if err := w.enqueue(following()); err != nil {
			return GrowthRow{}, err
		}
		if o.OnJob != nil {
			o.OnJob()
		}
	}
	row := GrowthRow{Pending: pending, Enqueue: w.coreTime.reset().Seconds() / float64(pending)}
	row.Memory = Memory{Pending: pending, Scheduler: heapInUse() - before}
	if err := w.runScheduler(); err != nil {
		return row, err
	}
	row.Memory.Locks = w.lockBytes()
	w.coreTime.reset()
	w.options.OnJob = nil // it was called when the jobs were enqueued
	spans := make([]time.Duration, 0, decisions)
	for span := time.Duration(0); len(spans) < decisions; {
		ended := w.ended
		if err := w.nextScheduled(); err != nil {
			return row, err
		}
		span += w.ends[len(w.ends)-1]
		if w.ended == ended {
			continue // the job has another opcode
		}
		if err := w.arrive(following()); err != nil {
			return row, err
		}
		spans = append(spans, span+w.arrivals[len(w.arrivals)-1])
		span = 0
	}
	row.Decisions = spreadOf(spans)
	return row, nil
}
