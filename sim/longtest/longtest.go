// Package longtest is the one place that decides how much of the long tests runs: tests that start real daemons, and sweeps over many
// seeds or steps. A plain go test runs everything. `make quick` (go test -short) leaves out real daemons, and makes a tenth of each sweep.
// `make test` makes a part of each sweep, by variables of the environment: with LONGTEST_PART=4 it is a quarter. `make check` makes the
// whole, but for the seeds of which CI's sweeps of the simulator have more: LONGTEST_SEEDS_PART.
package longtest

import (
	"os"
	"strconv"
	"testing"
)

// Skip ends a long test in short mode.
func Skip(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT RUN: a long test; go test without -short runs it")
	}
}

// Times returns how often a sweep repeats its test: full times, or a part of that, at least once.
func Times[N int | uint64](full N) N { return some(full, "LONGTEST_PART") }

// Seeds is Times for random work in the simulator that `make sim` has on more seeds.
func Seeds[N int | uint64](full N) N { return some(full, "LONGTEST_SEEDS_PART") }

func some[N int | uint64](full N, variable string) N {
	if testing.Short() {
		return max(full/10, 1)
	}
	return max(full/N(part(variable)), 1)
}

// Stride returns how far apart the steps are that a sweep hits: by full steps, or by so many more that a part of the steps is hit. In
// short mode this is a twentieth.
func Stride[N int | uint64](full N) N {
	if testing.Short() {
		return full * 20
	}
	return full * N(part("LONGTEST_PART"))
}

// part is which part of a sweep runs: 4 is a quarter.
func part(variable string) int {
	text := os.Getenv(variable)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic(variable + " is not a whole number from 1: " + text)
	}
	return n
}
