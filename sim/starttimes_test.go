package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// TestJobsStartAtTheirTimes runs random work beside clients whose jobs start at times, on one node and on three.
func TestJobsStartAtTheirTimes(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 60, 3: 10} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			requireSeedsGood(t, seeds, "--times 1", runOptions{Nodes: nodes, Times: 1})
		})
	}
}

// TestTimeCheckersBite shows that the checker of start times finds the mutations that it guards against, on one node and on three.
func TestTimeCheckersBite(t *testing.T) {
	longtest.Skip(t)
	for _, nodes := range []int{1, 3} {
		for mutation, faults := range map[string]FaultRates{"forgotten-times": {Crash: 100}, "lost-times": {}} {
			t.Run(fmt.Sprintf("%s, %d", mutation, nodes), func(t *testing.T) {
				t.Parallel()
				mutations, err := findMutation(mutation)
				require.NoError(t, err)
				for seed := range uint64(50) {
					w := New(Options{Seed: seed, Nodes: nodes, FaultRates: faults, Checkers: []Checker{&checkStartTimes{}}, Mutations: mutations})
					w.timeWork = newTimeWork(w, 3)
					w.runWork(newWorkload(w, 1, 3, nil), 5000)
					if w.Err() != nil && strings.Contains(w.Err().Error(), "before its time") { // the mutation may break something else first
						t.Logf("seed %d: %v", seed, w.Err())
						return
					}
				}
				require.Fail(t, "it has not bitten")
			})
		}
	}
}
