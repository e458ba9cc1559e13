package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/study"
)

// The standard error is that of the differences, seed by seed, and not that of the two means.
func TestTheStandardErrorIsPaired(t *testing.T) {
	of := func(expected, plain float64) study.Comparison {
		return study.Comparison{Expected: &study.Outcome{Makespan: expected}, Plain: &study.Outcome{Makespan: plain}}
	}
	m := &measures[0]
	require.Equal(t, "0.0 %", m.standardError([]study.Comparison{of(90, 100), of(190, 200), of(290, 300)}))
	require.Equal(t, "10.0 %", m.standardError([]study.Comparison{of(80, 100), of(100, 100)}))
	require.Empty(t, m.standardError([]study.Comparison{of(0, 0), of(0, 0)}))
}
