package throughput

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/sim/longtest"
	"lockstep/sim/study"
)

// both runs the same work with the daemon's actors and without them, in the orders by weights and plain.
func both(t *testing.T, mix string, o study.MixOptions) (actors, here [2]study.Outcome) {
	m, err := study.FindMix(mix)
	require.NoError(t, err)
	c, err := study.Compare(m, study.CompareOptions{MixOptions: o, Without: []string{config.OrderExpected, study.Informed}})
	require.NoError(t, err)
	actors = [2]study.Outcome{*c.Weights, *c.Plain}
	for i, predictive := range []bool{true, false} {
		got := done(t, study.NewPlan(m, o), Options{Slots: o.Slots, Settings: settings(t, predictive)}).Outcome
		here[i] = study.Outcome{Jobs: got.Jobs, Makespan: got.Makespan, PerHour: got.PerHour, Waits: got.Waits,
			SlotSeconds: got.SlotSeconds, LockWaitSeconds: got.LockWaitSeconds}
	}
	return actors, here
}

// With a single slot no two jobs request locks at the same time, and all results equal
// those of the daemon.
func TestOneSlotIsAsInTheDaemon(t *testing.T) {
	longtest.Skip(t)
	for _, m := range study.Mixes {
		actors, here := both(t, m.Name, study.MixOptions{Seed: 4, Jobs: 120, Slots: 1, Nodes: 20, Load: 1.5})
		for i := range actors {
			require.Equal(t, actors[i].Waits, here[i].Waits, m.Name)
			require.InDelta(t, actors[i].Makespan, here[i].Makespan, 1e-6, m.Name)
			require.InDelta(t, actors[i].SlotSeconds, here[i].SlotSeconds, 1e-6, m.Name)
			require.Zero(t, here[i].LockWaitSeconds)
		}
	}
}

// With several slots, jobs that are chosen at the same moment request locks in the order of
// choice here, and in any order in the daemon. Over several seeds the difference is small.
func TestSeveralSlotsAreNearlyAsInTheDaemon(t *testing.T) {
	longtest.Skip(t)
	var makespan, mean, slots [2]float64
	for seed := range uint64(4) {
		actors, here := both(t, "operator", study.MixOptions{Seed: seed, Jobs: 250, Slots: 6, Nodes: 20, Load: 0.1})
		for i := range actors {
			for k, o := range []study.Outcome{actors[i], here[i]} {
				makespan[k] += o.Makespan
				mean[k] += o.Mean
				slots[k] += o.SlotSeconds
			}
			require.InEpsilon(t, actors[i].SlotSeconds-actors[i].LockWaitSeconds, here[i].SlotSeconds-here[i].LockWaitSeconds, 1e-9, "the work itself")
		}
	}
	t.Logf("daemon's actors, here: makespan %v, mean wait %v, slot time %v", makespan, mean, slots)
	require.InEpsilon(t, makespan[0], makespan[1], 0.01)
	require.InEpsilon(t, mean[0], mean[1], 0.1)
	require.InEpsilon(t, slots[0], slots[1], 0.05)
}
