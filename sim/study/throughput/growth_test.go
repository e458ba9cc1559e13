package throughput

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/sim/study"
)

func TestSizes(t *testing.T) {
	require.Equal(t, []int{7}, Sizes(7))
	require.Equal(t, []int{1000}, Sizes(1000))
	require.Equal(t, []int{1000, 10_000, 20_000}, Sizes(20_000))
	require.Equal(t, []int{1000, 10_000, 100_000, 1_000_000}, Sizes(1_000_000))
}

// The backlog is enqueued once and keeps its length. Its memory is that of the scheduler's
// state.
func TestGrowth(t *testing.T) {
	o := study.MixOptions{Seed: 1, Jobs: 3000, Slots: 20, Nodes: 40, Load: 0.1}
	work, told := study.NewPlan(study.Mixes[0], o), 0
	for _, pending := range []int{1000, 3000} {
		told = 0
		row, err := Growth(work, Options{Slots: o.Slots, Settings: settings(t, true), OnJob: func() { told++ }}, pending, 50)
		require.NoError(t, err)
		require.Equal(t, pending, told)
		require.Equal(t, pending, row.Pending)
		require.Equal(t, 50, row.Decisions.N)
		require.LessOrEqual(t, row.Decisions.P50, row.Decisions.P99)
		require.LessOrEqual(t, row.Decisions.P99, row.Decisions.Max)
		require.Positive(t, row.Enqueue)
		require.Greater(t, row.Memory.PerPending(), 40.0, "at least the entry itself")
		require.Less(t, row.Memory.PerPending(), 10_000.0)
	}
}

func TestGrowthOfLittleWork(t *testing.T) {
	var work listedWork
	work.add(0, 5, `[["node/a", "exclusive"]]`)
	row, err := Growth(&work, Options{Slots: 3, Settings: settings(t, true)}, 1, 10)
	require.NoError(t, err)
	require.Equal(t, 10, row.Decisions.N)
}

func TestSpread(t *testing.T) {
	require.Zero(t, spreadOf(nil))
	var spans []time.Duration
	for i := range 200 {
		spans = append(spans, time.Duration(200-i)*time.Second)
	}
	require.Equal(t, Spread{N: 200, Mean: 100.5, P50: 100, P99: 198, Max: 200}, spreadOf(spans))
}
