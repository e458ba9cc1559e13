package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// TestSchedulesKeepTheirTimes runs random work beside clients with schedules, on one node and on three.
func TestSchedulesKeepTheirTimes(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 40, 3: 8} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			requireSeedsGood(t, seeds, "--schedules 1", runOptions{Nodes: nodes, Schedules: 1})
		})
	}
}

// TestScheduleCheckersBite shows that the checkers of schedules find the mutations that they guard against.
func TestScheduleCheckersBite(t *testing.T) {
	longtest.Skip(t)
	crash := FaultRates{Crash: 200}
	for name, c := range map[string]struct {
		checker        func() Checker
		nodes          int
		mutation, want string
		faults         FaultRates
		within         uint64
	}{
		"jobs twice, because a daemon starts with a file without the firing": {
			checker: func() Checker { return &checkFirings{} }, nodes: 1,
			mutation: "unnoted-firing", want: "has job", faults: crash, within: 20,
		},
		"jobs twice, because a new master has a file without the firing": {
			checker: func() Checker { return &checkFirings{} }, nodes: 3,
			mutation: "unnoted-firing", want: "has job", faults: crash, within: 20,
		},
		"a job of which the history says nothing": {
			checker: func() Checker { return checkNoted{} }, nodes: 1,
			mutation: "unnoted-firing", want: "has no such job", within: 5,
		},
		"the same on three nodes": {
			checker: func() Checker { return checkNoted{} }, nodes: 3,
			mutation: "unnoted-firing", want: "has no such job", within: 5,
		},
		"a due time of which the history says nothing": {
			checker: func() Checker { return &checkHistories{} }, nodes: 1,
			mutation: "lost-firing", want: "its history lacks", within: 20,
		},
		"a due time of which the history on three nodes says nothing": {
			checker: func() Checker { return &checkHistories{} }, nodes: 3,
			mutation: "lost-firing", want: "its history lacks", within: 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range c.within {
				mutations, err := findMutation(c.mutation)
				require.NoError(t, err)
				w := New(Options{Seed: seed, Nodes: c.nodes, FaultRates: c.faults, Checkers: []Checker{c.checker()}, Mutations: mutations})
				w.scheduleWork = newScheduleWork(w, 3)
				w.runWork(newWorkload(w, 1, 3, nil), 5000)
				if w.Err() != nil && strings.Contains(w.Err().Error(), c.want) { // the mutation may break something else first
					t.Logf("seed %d: %v", seed, w.Err())
					return
				}
				if w.Err() != nil {
					t.Logf("seed %d: %v", seed, w.Err())
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", c.within)
		})
	}
}
