package throughput

import "time"

// GrowthRow is what a backlog of so many pending jobs costs.
type GrowthRow struct {
	Pending int `json:"pending"`
	// Enqueue is putting one more in line, mean over all, in seconds.
	Enqueue float64 `json:"enqueue"`
	// Decisions are ends of jobs, each with all that it causes, and with the coming of
	// the job that takes the place of the one that was chosen.
	Decisions Spread `json:"decisions"`
	Memory    Memory `json:"memory"`
}

// Sizes are the backlogs of a growth up to so many jobs: powers of ten from 1,000,
// and the greatest.
func Sizes(most int) []int {
	var sizes []int
	for n := 1000; n < most; n *= 10 {
		sizes = append(sizes, n)
	}
	return append(sizes, most)
}

// Growth puts so many jobs in line, all at one moment, fills the slots, and then
// has that many jobs end, while others take their places in the line: the backlog
// stays as long as it is. Each job of the work comes at least once.
func Growth(work Work, o Options, pending, decisions int) (GrowthRow, error) {
	w := newEngine(work, o)
	w.chained = nil // no job waits for another here
	clear(w.dependents)
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
	w.options.OnJob = nil // it was called when they were enqueued
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
