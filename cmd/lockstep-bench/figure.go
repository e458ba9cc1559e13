package main

import (
	"fmt"
	"slices"
)

// figure sums up samples.
type figure struct {
	Median  float64   `json:"median"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Samples []float64 `json:"samples"` // in the order in which they were taken
}

// newFigure needs one sample at least.
func newFigure(samples []float64) figure {
	return figure{Median: median(samples), Min: slices.Min(samples), Max: slices.Max(samples), Samples: samples}
}

// median of an even number is the mean of the two in the middle.
func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func values(samples []sample) []float64 {
	found := make([]float64, len(samples))
	for i, s := range samples {
		found[i] = s.value
	}
	return found
}

// human writes a value as people read it.
func (u unit) human(value float64) string {
	switch u {
	case nanoseconds:
		switch {
		case value >= 1e9:
			return three(value/1e9) + " s"
		case value >= 1e6:
			return three(value/1e6) + " ms"
		default:
			return three(value/1e3) + " µs"
		}
	case bytes, bytesPerJob:
		switch {
		case value >= 1e6:
			return three(value/1e6) + " MB"
		default:
			return three(value/1e3) + " kB"
		}
	case jobsRate, updatesRate, wakeups:
		return three(value) + "/s"
	default:
		return three(value) + "x"
	}
}

// three has about three digits that count.
func three(value float64) string {
	switch {
	case value >= 100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}
