package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// A short year: lockstep-sim year has a whole one.
func TestAYearOfAnHourlySchedule(t *testing.T) {
	longtest.Skip(t)
	r, err := Year{Seed: 1, Nodes: 3, Days: 20, Kills: 10}.Run()
	require.NoError(t, err)
	require.NoError(t, r.Err)
	require.Equal(t, 20*24, r.Due)
	require.Equal(t, r.Due, r.OnTime+r.Late+r.Missed+r.TooOld)
	require.Equal(t, 10, r.Kills)
	require.Positive(t, r.Late)
	require.Positive(t, r.Missed)
}

// The comparison of due times and jobs sees what does not correspond, and a year has checkers that see mutations before.
func TestAYearIsJudged(t *testing.T) {
	longtest.Skip(t)
	for _, mutation := range []string{"unnoted-firing", "lost-firing"} {
		r, err := Year{Seed: 1, Nodes: 3, Days: 4, Kills: 1, Mutation: mutation}.Run()
		require.NoError(t, err)
		require.ErrorContains(t, r.Err, "the history has no such job")
	}

	w, seen, _ := Year{Seed: 1, Nodes: 3, Days: 4, Kills: 6}.simulate(Mutations{})
	require.NoError(t, w.Err())
	require.NoError(t, seen.judge(w, &YearResult{}))
	for due, e := range seen.entries {
		want := "has no job and no reason"
		if len(e.Jobs) > 0 {
			want = fmt.Sprintf("has the jobs [] in the history, and %d exist", e.Jobs)
		}
		delete(seen.entries, due)
		if coveredUntil(e.Missed).IsZero() {
			require.ErrorContains(t, seen.judge(w, &YearResult{}), instant(due)+" "+want)
		}
		seen.entries[due] = e
	}
	seen.made -= time.Hour.Microseconds()
	require.ErrorContains(t, seen.judge(w, &YearResult{}), "has no job and no reason")
	seen.made += 2 * time.Hour.Microseconds()
	require.ErrorContains(t, seen.judge(w, &YearResult{}), "which is no due time")
}

// A cluster that passes over its heartbeats keeps its master, and misses a master that has gone as soon as one that does not.
func TestAClusterRests(t *testing.T) {
	w := New(Options{Seed: 1, Nodes: 3, Rests: true, Checkers: []Checker{}})
	for _, n := range w.nodes {
		require.NoError(t, n.Start())
	}
	w.RunFor(time.Minute)
	first, steps := w.master(), w.Steps()
	require.NotNil(t, first)
	w.RunFor(24 * time.Hour)
	require.Same(t, first, w.master())
	require.Less(t, w.Steps()-steps, uint64(50_000))
	first.Crash()
	w.RunFor(5 * time.Second)
	require.NotNil(t, w.master())
	require.NotSame(t, first, w.master())
}
