package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

func configChecker() Checker      { return &checkConfig{} }
func reservationChecker() Checker { return &checkReservations{} }
func ssconfChecker() Checker      { return &checkSsconf{} }

// configBites are the mutations that the checkers of the configuration find.
var configBites = []struct {
	mutation string
	checker  func() Checker
	faults   FaultRates
	within   uint64 // seeds
}{
	{"unsynced-journal", configChecker, FaultRates{}, 5},
	{"journal-of-boot", configChecker, FaultRates{Reboot: 300}, 50},
	{"greedy-fold", configChecker, FaultRates{}, 300},
	{"kept-refusals", configChecker, FaultRates{Disk: 40}, 50},
	{"no-rollback", configChecker, FaultRates{Disk: 10}, 300},
	{"hasty-lock-read", configChecker, FaultRates{Stall: 30}, 600},
	{"ignored-lock", configChecker, FaultRates{}, 50},
	{"lost-pools", configChecker, FaultRates{}, 50},
	{"kept-reservations", reservationChecker, FaultRates{}, 20},
	{"shared-reservations", reservationChecker, FaultRates{}, 200},
	{"stale-ssconf", ssconfChecker, FaultRates{}, 20},
	{"early-ssconf", ssconfChecker, FaultRates{}, 300},
}

// Each checker of the configuration finds its mutations in random work, and nothing without them.
func TestConfigCheckersBite(t *testing.T) {
	longtest.Skip(t)
	run := func(seed uint64, faults FaultRates, c Checker, m Mutations) error {
		w := New(Options{Seed: seed, Networks: true, FaultRates: faults, Checkers: []Checker{c}, Mutations: m})
		w.config = newConfigWork(w, 4, 16, nil)
		w.runWork(newWorkload(w, 1, 2, nil), 8000)
		return w.Err()
	}
	for _, c := range configBites {
		t.Run(c.mutation, func(t *testing.T) {
			t.Parallel()
			mutations, err := FindMutation(c.mutation)
			require.NoError(t, err)
			for seed := range c.within {
				if err := run(seed, c.faults, c.checker(), mutations); err != nil {
					t.Logf("seed %d: %v", seed, err)
					require.NoError(t, run(seed, c.faults, c.checker(), Mutations{}))
					return
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", c.within)
		})
	}
}
