// Package longtest is the one place that decides what `make quick` (go test -short) leaves
// out: tests that start real daemons, and sweeps over many seeds or steps. `make test` runs
// everything.
package longtest

import "testing"

// Skip ends a long test in short mode.
func Skip(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT RUN: a long test; go test without -short runs it")
	}
}

// Times returns how often a sweep repeats its test: full times, or a tenth of that in short
// mode, at least once.
func Times[N int | uint64](full N) N {
	if testing.Short() {
		return max(full/10, 1)
	}
	return full
}
