// Package longtest is the one place that decides how much of the long tests runs: tests that start real daemons, and sweeps over many
// seeds or steps. `make check` and a plain go test run everything. `make test` makes a part of each sweep: with LONGTEST_PART=4 in the
// environment it is a quarter. `make quick` (go test -short) leaves out real daemons, and makes a tenth of each sweep.
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
func Times[N int | uint64](full N) N {
	if testing.Short() {
		return max(full/10, 1)
	}
	return max(full/N(part()), 1)
}

// Stride returns how far apart the steps are that a sweep hits: by full steps, or by so many more that a part of the steps is hit. In
// short mode this is a twentieth.
func Stride[N int | uint64](full N) N {
	if testing.Short() {
		return full * 20
	}
	return full * N(part())
}

// part is which part of each sweep runs: 4 is a quarter.
func part() int {
	text := os.Getenv("LONGTEST_PART")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic("LONGTEST_PART is not a whole number from 1: " + text)
	}
	return n
}
