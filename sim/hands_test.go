package sim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// requireBite runs seeds with a mutation until a checker finds it, which must be the one with that text.
func requireBite(t *testing.T, within uint64, want string, o runOptions, mutation, kinds string) {
	t.Helper()
	mutations, err := findMutation(mutation)
	require.NoError(t, err)
	o.Mutations, o.Steps = mutations, stepsOfSeed
	o.Faults, err = parseFaults(kinds)
	require.NoError(t, err)
	for i := range within {
		if r := simulate(*firstFlag+i, o); r.Err != nil {
			require.ErrorContains(t, r.Err, want)
			t.Logf("seed %d: %v", r.Seed, r.Err)
			return
		}
	}
	require.Fail(t, "it has not bitten", "%s within %d seeds", mutation, within)
}

// requireSeedsGood runs seeds with all faults.
func requireSeedsGood(t *testing.T, seeds uint64, flags string, o runOptions) {
	t.Helper()
	faults, err := parseFaults("all")
	require.NoError(t, err)
	o.Steps, o.Faults = stepsOfSeed, faults
	for i := range longtest.Seeds(seeds) {
		requireGood(t, o.Nodes, "all "+flags, simulate(*firstFlag+i, o))
	}
}

// TestAnOperatorChangesWhatLiesAround runs random work while an operator changes run directories and settings between the starts of the
// daemons, and shows that the checkers bite.
func TestAnOperatorChangesWhatLiesAround(t *testing.T) {
	t.Run("one node", func(t *testing.T) {
		t.Parallel()
		o := runOptions{Nodes: 1, Hands: 1}
		requireSeedsGood(t, 150, "--hands 1", o)
		requireBite(t, 50, "run directories", o, "any-run-dir", "crash,stop")
		requireBite(t, 50, "edited files", o, "unset-aside", "crash,stop")
	})
	t.Run("three nodes", func(t *testing.T) {
		t.Parallel()
		o := runOptions{Nodes: 3, Hands: 1}
		requireSeedsGood(t, 30, "--hands 1", o)
		requireBite(t, 50, "run directories", o, "any-run-dir", "crash,stop")
	})
}

// TestProgramsCompeteForLocks runs random work beside programs that take the locks of jobs, on one node and on the masters of three, and shows
// that the checker bites.
func TestProgramsCompeteForLocks(t *testing.T) {
	for nodes, c := range map[int]struct {
		seeds uint64
		kinds string // a master begins without locks
	}{1: {150, "crash"}, 3: {30, "panic"}} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			o := runOptions{Nodes: nodes, Programs: 1}
			requireSeedsGood(t, c.seeds, "--programs 1", o)
			requireBite(t, 50, "locks of programs", o, "forgotten-programs", c.kinds)
		})
	}
}

// TestRemovedJobsAreForgotten runs random work while an operator removes files of ended jobs, and shows that the checker bites.
func TestRemovedJobsAreForgotten(t *testing.T) {
	o := runOptions{Nodes: 1, Removals: 1}
	requireSeedsGood(t, 150, "--removals 1", o)
	requireBite(t, 50, "removed jobs are forgotten", o, "unheard-misses", "none")
}
