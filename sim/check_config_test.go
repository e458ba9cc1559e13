package sim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

func configChecker() Checker      { return &checkConfig{} }
func reservationChecker() Checker { return &checkReservations{} }
func ssconfChecker() Checker      { return &checkSsconf{} }
func confdChecker() Checker       { return &checkConfd{} }

// configBites are the mutations that the checkers of the configuration find.
var configBites = []struct {
	mutation string
	checker  func() Checker
	faults   FaultRates
	within   uint64 // seeds
	nodes    int    // 0: a single node
}{
	{"unsynced-journal", configChecker, FaultRates{}, 5, 0},
	{"journal-of-boot", configChecker, FaultRates{Reboot: 300}, 50, 0},
	{"greedy-fold", configChecker, FaultRates{}, 300, 0},
	{"kept-refusals", configChecker, FaultRates{Disk: 40}, 50, 0},
	{"no-rollback", configChecker, FaultRates{Disk: 10}, 300, 0},
	{"hasty-lock-read", configChecker, FaultRates{Stall: 30}, 600, 0},
	{"ignored-lock", configChecker, FaultRates{}, 50, 0},
	{"lost-pools", configChecker, FaultRates{}, 50, 0},
	{"kept-reservations", reservationChecker, FaultRates{}, 20, 0},
	{"shared-reservations", reservationChecker, FaultRates{}, 200, 0},
	{"kept-reservations", reservationChecker, FaultRates{}, 50, 3},
	{"unmade-primary", configChecker, FaultRates{}, 50, 0},
	{"unmade-attach", configChecker, FaultRates{}, 100, 0},
	{"unmade-detach", configChecker, FaultRates{}, 50, 0},
	{"unmade-disk-update", configChecker, FaultRates{}, 50, 0},
	{"unmade-network-update", configChecker, FaultRates{}, 50, 0},
	{"kept-addresses", configChecker, FaultRates{}, 200, 0},
	{"ignored-shared-lock", configChecker, FaultRates{}, 50, 0},
	{"free-destruction", configChecker, FaultRates{}, 50, 0},
	{"stale-ssconf", ssconfChecker, FaultRates{}, 20, 0},
	{"stale-confd", confdChecker, FaultRates{}, 20, 0},
	{"stale-confd", confdChecker, FaultRates{}, 20, 3},
	{"early-ssconf", ssconfChecker, FaultRates{}, 300, 0},
	{"stale-ssconf", ssconfChecker, FaultRates{}, 20, 3},
	{"mixed-ssconf", ssconfChecker, FaultRates{Reboot: 300}, 20, 0},
	{"mixed-ssconf", ssconfChecker, FaultRates{Crash: 200}, 20, 3},
	{"older-ssconf", ssconfChecker, FaultRates{}, 20, 0},
	{"older-ssconf", ssconfChecker, FaultRates{}, 20, 3},
}

// Each checker of the configuration finds its mutations in random work, and nothing without them.
func TestConfigCheckersBite(t *testing.T) {
	longtest.Skip(t)
	run := func(seed uint64, nodes int, faults FaultRates, c Checker, m Mutations) error {
		w := New(Options{Seed: seed, Networks: true, FaultRates: faults, Checkers: []Checker{c}, Mutations: m, Nodes: nodes})
		w.config = newConfigWork(w, 4, 16, nil)
		w.runWork(newWorkload(w, 1, 2, nil), 8000)
		return w.Err()
	}
	for _, c := range configBites {
		t.Run(fmt.Sprintf("%s on %d nodes", c.mutation, max(1, c.nodes)), func(t *testing.T) {
			t.Parallel()
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			for seed := range c.within {
				if err := run(seed, c.nodes, c.faults, c.checker(), mutations); err != nil {
					t.Logf("seed %d: %v", seed, err)
					require.NoError(t, run(seed, c.nodes, c.faults, c.checker(), Mutations{}))
					return
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", c.within)
		})
	}
}
