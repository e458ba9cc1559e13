package main

import (
	"fmt"
	"slices"
)

// summary summarizes samples.
type summary struct {
	Median  float64   `json:"median"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Samples []float64 `json:"samples"` // in the order of rounds
}

// summarize summarizes at least one sample.
func summarize(samples []float64) summary {
	return summary{Median: median(samples), Min: slices.Min(samples), Max: slices.Max(samples), Samples: samples}
}

// median of an even number of samples is the mean of the two in the middle.
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

// format is a value of a unit with a readable unit, such as ms for nanoseconds.
func (u unit) format(value float64) string {
	switch u {
	case nanoseconds:
		switch {
		case value >= 1e9:
			return threeDigits(value/1e9) + " s"
		case value >= 1e6:
			return threeDigits(value/1e6) + " ms"
		default:
			return threeDigits(value/1e3) + " µs"
		}
	case byteSize, bytesPerJob:
		switch {
		case value >= 1e6:
			return threeDigits(value/1e6) + " MB"
		default:
			return threeDigits(value/1e3) + " kB"
		}
	case bytesRate:
		return threeDigits(value/1e6) + " MB/s"
	case jobsRate, updatesRate, wakeups:
		return threeDigits(value) + "/s"
	default:
		return threeDigits(value) + "x"
	}
}

// threeDigits formats a value with about three significant digits.
func threeDigits(value float64) string {
	switch {
	case value >= 100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}
