package study

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/sim"
)

// leastWaits is the least sum of waits of all schedules without preemption, found by trying each order: every job in its
// turn starts as soon as its locks and a slot are free.
func leastWaits(jobs []boundJob, slots int) time.Duration {
	least := time.Duration(1 << 62)
	order := make([]int, 0, len(jobs))
	var try func()
	try = func() {
		if len(order) == len(jobs) {
			least = min(least, waitsOf(jobs, order, slots))
			return
		}
		for i := range jobs {
			if !slices.Contains(order, i) {
				order = append(order, i)
				try()
				order = order[:len(order)-1]
			}
		}
	}
	try()
	return least
}

// waitsOf places the jobs one after the other at the earliest time at which they fit. Some order gives the best
// schedule: that of its starts.
func waitsOf(jobs []boundJob, order []int, slots int) time.Duration {
	locks, free := map[string]time.Duration{}, make([]time.Duration, slots)
	sum := time.Duration(0)
	for _, i := range order {
		slot := slices.Index(free, slices.Min(free))
		start := max(jobs[i].release, free[slot])
		for _, l := range jobs[i].locks {
			start = max(start, locks[l])
		}
		for _, l := range jobs[i].locks {
			locks[l] = start + jobs[i].work
		}
		free[slot] = start + jobs[i].work
		sum += start - jobs[i].release
	}
	return sum
}

// No schedule of seven jobs has a smaller mean wait than the bound, and on one lock with one release the bound is
// exact.
func TestNoScheduleIsBetterThanTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 3).Draw(t, "slots")
		var jobs []boundJob
		var batches []batch
		at := time.Duration(0)
		for range rapid.IntRange(1, 7).Draw(t, "jobs") {
			at += time.Duration(rapid.IntRange(0, 3).Draw(t, "later")) * time.Second
			locks := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"node/a", "node/b", "node/c"}), 0, 2, rapid.ID).Draw(t, "locks")
			seconds := rapid.IntRange(1, 9).Draw(t, "seconds")
			jobs = append(jobs, boundJob{at, time.Duration(seconds) * time.Second, locks})
			op := fmt.Sprintf("run run_for=%d locks=%s", seconds, strings.Join(append(locks, "node/d:shared"), ","))
			batches = append(batches, batch{at, []plannedJob{{ops: []sim.OpSpec{sim.OpSpec(op)}}}})
		}
		least := leastWaits(jobs, slots).Seconds() / float64(len(jobs))
		require.LessOrEqual(t, lowerBound(batches, slots), least+1e-9)
	})
	one := []batch{{0, nil}}
	for _, seconds := range []int{5, 1, 3} {
		one[0].jobs = append(one[0].jobs, plannedJob{ops: []sim.OpSpec{sim.OpSpec(fmt.Sprintf("run run_for=%d locks=node/a", seconds))}})
	}
	require.InDelta(t, (0+1+4)/3.0, lowerBound(one, 20), 1e-9)
}
