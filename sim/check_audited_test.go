package sim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// The checker of the audit log finds each of its mutations in random work, and nothing without them.
func TestAuditCheckerBites(t *testing.T) {
	longtest.Skip(t)
	run := func(seed uint64, nodes int, m Mutations) error {
		w := New(Options{Seed: seed, FaultRates: FaultRates{}, Checkers: []Checker{&checkAudited{}}, Mutations: m, Nodes: nodes})
		w.runWork(newWorkload(w, 3, 30, nil), 20000)
		return w.Err()
	}
	for _, c := range []struct {
		mutation string
		nodes    int
	}{{"unaudited", 1}, {"lost-audit", 1}, {"lying-sync", 1}} {
		t.Run(fmt.Sprintf("%s on %d nodes", c.mutation, c.nodes), func(t *testing.T) {
			t.Parallel()
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			for seed := range uint64(10) {
				if err := run(seed, c.nodes, mutations); err != nil {
					t.Logf("seed %d: %v", seed, err)
					require.NoError(t, run(seed, c.nodes, Mutations{}))
					return
				}
			}
			require.Fail(t, "it has not bitten")
		})
	}
}
