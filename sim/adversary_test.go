package sim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/sim/longtest"
)

// The adversaries that have starved a job past reserve_after do so in no order.
func TestProvenAdversariesStarveNobody(t *testing.T) {
	for name, p := range provenPlans {
		for _, order := range []string{config.OrderPlain, config.OrderWeights, config.OrderExpected} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(2) {
					wait, w := runPlan(seed, p, AdversaryOptions{Order: order})
					require.NoError(t, w.Err())
					require.NotZero(t, wait, "it starves")
					t.Logf("%s, %s, seed %d: its locks after %.1f s", name, order, seed, wait.Seconds())
				}
			})
		}
	}
}

// Adversaries of many seeds starve nobody.
func TestAdversariesStarveNobody(t *testing.T) {
	for _, order := range []string{config.OrderPlain, config.OrderExpected} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			for seed := range longtest.Times(uint64(100)) {
				require.NoError(t, RunAdversary(seed, AdversaryOptions{Order: order}).Err, "seed %d", seed)
			}
		})
	}
}

// In these adversaries a job at its promise started before a more urgent one that waited for the same locks.
func TestKeptAdversariesStarveNobody(t *testing.T) {
	for _, seed := range []uint64{133, 376} {
		require.NoError(t, RunAdversary(seed, AdversaryOptions{Order: config.OrderExpected}).Err, "seed %d", seed)
	}
}

// The adversaries find a scheduler that starts no job before its locks are free, one that forgets promises, and one that does not know what later opcodes want.
func TestAdversariesFindStarvation(t *testing.T) {
	for _, c := range []struct{ mutation, plan, says string }{
		{"moved-promises", "a limit and a lock", ""},
		{"unblocked-starts", "programs", ""},
		{"first-opcodes-only", "second opcodes", "has its locks before"},
	} {
		t.Run(fmt.Sprint(c.mutation, ", ", c.plan), func(t *testing.T) {
			t.Parallel()
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			wait, w := runPlan(1, provenPlans[c.plan], AdversaryOptions{Order: config.OrderExpected, Mutations: mutations})
			require.True(t, wait == 0 || w.Err() != nil, "it had its locks after %v", wait)
			if c.says != "" {
				require.ErrorContains(t, w.Err(), c.says)
			}
		})
	}
}
