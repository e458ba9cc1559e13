package monitor

import (
	"slices"
	"time"
)

// Histogram counts values by size, for a histogram of Prometheus. It is copied by value with Clone only.
type Histogram struct {
	Bounds []float64 // upper bounds of the buckets, rising
	Counts []uint64  // of values up to each bound, and at the end of all others
	Sum    float64
	Count  uint64
}

// waitBounds are bounds of times of jobs and locks in seconds, from 10 ms to a day.
var waitBounds = []float64{0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}

// commitBounds are bounds of the times of commits in seconds.
var commitBounds = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5}

// NewWaits returns a histogram of waits in seconds.
func NewWaits() Histogram { return newHistogram(waitBounds) }

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

// Observe counts a value.
func (h *Histogram) Observe(value float64) {
	i, _ := slices.BinarySearch(h.Bounds, value)
	h.Counts[i]++
	h.Sum += value
	h.Count++
}

// Clone returns a copy that later values do not change.
func (h *Histogram) Clone() Histogram {
	c := *h
	c.Counts = slices.Clone(h.Counts)
	return c
}

// Buckets are the counts of values up to each bound, as Prometheus has them.
func (h *Histogram) Buckets() map[float64]uint64 {
	total, all := uint64(0), map[float64]uint64{}
	for i, bound := range h.Bounds {
		total += h.Counts[i]
		all[bound] = total
	}
	return all
}

// Quantiles of recent times.
const (
	recentWindow = 10 * time.Minute
	recentMax    = 1024 // the newest ones count
)

// recent are durations of the last ten minutes, oldest first.
type recent struct {
	values []sample[float64]
}

func (r *recent) add(now time.Time, seconds float64) {
	r.values = append(r.values, sample[float64]{now, seconds})
	if len(r.values) > 2*recentMax {
		r.values = append(r.values[:0:0], r.values[len(r.values)-recentMax:]...)
	}
}

// quantiles drops the values older than recentWindow, and all but the last recentMax. It returns for each part the value below which this
// part of the rest lies; nil without any value.
func (r *recent) quantiles(now time.Time, parts ...float64) []*float64 {
	first := slices.IndexFunc(r.values, func(s sample[float64]) bool { return now.Sub(s.at) <= recentWindow })
	if first < 0 {
		first = len(r.values)
	}
	r.values = r.values[max(first, len(r.values)-recentMax):]
	sorted := make([]float64, len(r.values))
	for i, s := range r.values {
		sorted[i] = s.value
	}
	slices.Sort(sorted)
	found := make([]*float64, len(parts))
	for i, part := range parts {
		if len(sorted) > 0 {
			found[i] = &sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
		}
	}
	return found
}
