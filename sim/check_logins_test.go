package sim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// loginBites are the mutations that the checker of logins finds.
var loginBites = []struct {
	mutation string
	faults   FaultRates
	within   uint64 // seeds
	nodes    int    // 0: a single node
}{
	{"lost-logins", FaultRates{}, 5, 0},
	{"lost-logouts", FaultRates{}, 5, 0},
	{"lost-logouts", FaultRates{Crash: 200}, 5, 3},
	{"ageless-logins", FaultRates{}, 10, 0},
	{"lying-sync", FaultRates{}, 5, 0},
}

// The checker of logins finds each of its mutations in random work, and nothing without them.
func TestLoginCheckerBites(t *testing.T) {
	longtest.Skip(t)
	run := func(seed uint64, nodes int, faults FaultRates, m Mutations) error {
		w := New(Options{Seed: seed, Browsers: true, FaultRates: faults, Checkers: []Checker{&checkLogins{}}, Mutations: m, Nodes: nodes})
		w.browsers = newBrowsers(w, 3, 12, nil)
		w.runWork(newWorkload(w, 1, 2, nil), 8000)
		return w.Err()
	}
	for _, c := range loginBites {
		t.Run(fmt.Sprintf("%s on %d nodes", c.mutation, max(1, c.nodes)), func(t *testing.T) {
			t.Parallel()
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			for seed := range c.within {
				if err := run(seed, c.nodes, c.faults, mutations); err != nil {
					t.Logf("seed %d: %v", seed, err)
					require.NoError(t, run(seed, c.nodes, c.faults, Mutations{}))
					return
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", c.within)
		})
	}
}
