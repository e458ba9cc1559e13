package sim

import (
	"fmt"
	"testing"

	"lockstep/sim/longtest"
)

// TestUsersDoWhatTheyMay runs random work beside clients of several accounts with different roles, on one node, three and five, and shows
// that the checkers bite.
func TestUsersDoWhatTheyMay(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 100, 3: 30, 5: 5} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			requireSeedsGood(t, seeds, "--users 1", runOptions{Nodes: nodes, Users: 1})
		})
	}
	t.Run("bites", func(t *testing.T) {
		t.Parallel()
		longtest.Skip(t)
		for _, c := range []struct{ mutation, want string }{
			{"all-operate", "roles"},
			{"any-owner", "roles"},
			{"believed-claims", "audit log"},
			{"lost-submitters", "submitters"},
			{"daemons-commands", "submitters"},
			{"misattributed", "audit log"},
			{"unaudited-refusals", "audit log"},
		} {
			for _, nodes := range []int{1, 3} {
				requireBite(t, 20, c.want, runOptions{Nodes: nodes, Users: 1}, c.mutation, "none")
			}
		}
	})
}
