package study

import (
	"slices"
	"time"

	"lockstep/core/answer"
	"lockstep/sim"
)

// estimatesEvery is how often the daemon is asked for estimates.
const estimatesEvery = 5 * time.Minute

// Estimates is how wrong the daemon's estimates of starts were, of the first one that each job got while it was pending.
// Errors are differences between the likely and the real start, in seconds.
type Estimates struct {
	Jobs   int     `json:"jobs"`   // that had an estimate
	Median float64 `json:"median"` // error
	P90    float64 `json:"p90"`    // error
	Inside float64 `json:"inside"` // share of the starts inside the range
	Waited float64 `json:"waited"` // median time from the estimate to the real start, in seconds
}

// estimated is the first estimate of a job.
type estimated struct {
	at     time.Duration // since the world began
	answer answer.TimeRange
}

// watchEstimates records the first estimate of each job while the world runs, in the map that it returns.
func watchEstimates(w *sim.World) map[int64]estimated {
	first := map[int64]estimated{}
	w.WatchOrder(estimatesEvery, func(order answer.Order) {
		for _, e := range order.Jobs {
			if _, known := first[e.ID]; !known && e.Start != nil {
				first[e.ID] = estimated{w.Elapsed(), *e.Start}
			}
		}
	})
	return first
}

// startTolerance is for a start at the moment of a range's end: the daemon takes some time for it.
const startTolerance = time.Second

// compareEstimates compares the first estimates of jobs with what has happened. It is nil without any.
func (m *metrics) compareEstimates(w *sim.World, first map[int64]estimated) *Estimates {
	began := w.Now().Add(-w.Elapsed())
	var wrong, waits []float64
	inside := 0
	for id, e := range first { // the order does not matter
		t := m.jobs[id]
		if t == nil {
			continue
		}
		start := began.Add(t.Chosen)
		wrong = append(wrong, start.Sub(e.answer.Likely.Time).Abs().Seconds())
		waits = append(waits, (t.Chosen - e.at).Seconds())
		if !start.Before(e.answer.From.Add(-startTolerance)) && !start.After(e.answer.To.Add(startTolerance)) {
			inside++
		}
	}
	n := len(wrong)
	if n == 0 {
		return nil
	}
	slices.Sort(wrong)
	slices.Sort(waits)
	return &Estimates{Jobs: n, Median: wrong[n/2], P90: wrong[(n*9+9)/10-1], Inside: float64(inside) / float64(n), Waited: waits[n/2]}
}
