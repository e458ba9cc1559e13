package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// TestTriesKeepTheirPolicies runs random work beside clients whose commands fail and are tried again, on one node and on three, and shows
// that the checkers bite.
func TestTriesKeepTheirPolicies(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 60, 3: 10} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			requireSeedsGood(t, seeds, "--tries 1", runOptions{Nodes: nodes, Tries: 1})
		})
	}
}

// TestTryCheckersBite shows that the checkers of tries find the mutations that they guard against, on one node and on three.
func TestTryCheckersBite(t *testing.T) {
	longtest.Skip(t)
	for _, nodes := range []int{1, 3} {
		for name, c := range map[string]struct {
			checker  func() Checker
			mutation string
			faults   FaultRates
			want     string
			single   bool // on one node only: in a cluster the next master rarely starts within the runs
		}{
			"a try that is not recorded": {
				checker:  func() Checker { return &checkTryRecords{} },
				mutation: "forgotten-try", want: "the record does not have its try",
			},
			"a command that runs once more, because a daemon starts without the record of a try": {
				checker:  func() Checker { return &checkTries{} },
				mutation: "forgotten-try", faults: FaultRates{Crash: 200}, want: "its policy has", single: true,
			},
			"a lost try that the policy leaves out": {
				checker:  func() Checker { return &checkTries{} },
				mutation: "repeated-lost", faults: FaultRates{Process: 20}, want: "lost with its process",
			},
			"a try before its time": {
				checker:  func() Checker { return &checkTries{} },
				mutation: "early-tries", want: "too early",
			},
			"no try where one is left": {
				checker:  func() Checker { return &checkTriesUsed{} },
				mutation: "left-out-tries", want: "further ones",
			},
			"a try after a cancel": {
				checker:  func() Checker { return &checkNoTryAfterCancel{} },
				mutation: "late-cancels", want: "was told that the job is canceled",
			},
			"locks between tries": { // has or wants
				checker:  func() Checker { return &checkBetweenTries{} },
				mutation: "no-deaths", faults: FaultRates{Process: 20}, want: "locks",
			},
			"a dependent job that does not wait": {
				checker:  func() Checker { return &checkDepends{} },
				mutation: "ended-tries", want: "has begun",
			},
		} {
			if c.single && nodes > 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d", name, nodes), func(t *testing.T) {
				t.Parallel()
				mutations, err := findMutation(c.mutation)
				require.NoError(t, err)
				for seed := range uint64(50) {
					w := New(Options{Seed: seed, Nodes: nodes, FaultRates: c.faults, Checkers: []Checker{c.checker()}, Mutations: mutations})
					w.tryWork = newTryWork(w, 3)
					w.runWork(newWorkload(w, 1, 3, nil), 5000)
					if w.Err() != nil && strings.Contains(w.Err().Error(), c.want) { // the mutation may break something else first
						t.Logf("seed %d: %v", seed, w.Err())
						return
					}
				}
				require.Fail(t, "it has not bitten")
			})
		}
	}
}
