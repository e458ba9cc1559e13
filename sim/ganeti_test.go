package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// TestGanetisProcessesWait runs random work of which Ganeti's program runs a part, and shows that nothing is granted to its processes
// while their jobs are paused, rejected or held, and that the checker bites.
func TestGanetisProcessesWait(t *testing.T) {
	faults, err := parseFaults("all")
	require.NoError(t, err)
	const seeds = 200
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		for i := range longtest.Seeds(seeds) {
			requireGood(t, 1, "all --ganeti 1", simulate(*firstFlag+uint64(i), runOptions{Steps: stepsOfSeed, Faults: faults, Ganeti: 1, Holders: HolderSeeds}))
		}
	})
	for name, from := range map[string]uint64{"paused-get-locks": 0, "forgotten-pauses": 200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mutations, err := findMutation(name)
			require.NoError(t, err)
			for i := range uint64(seeds) {
				if r := simulate(*firstFlag+from+i, runOptions{Steps: stepsOfSeed, Faults: faults, Ganeti: 1, Mutations: mutations}); r.Err != nil {
					require.ErrorContains(t, r.Err, "is granted")
					return
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", seeds)
		})
	}
}
