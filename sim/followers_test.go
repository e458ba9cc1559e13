package sim

import (
	"fmt"
	"testing"
)

// TestFollowersGetEverything runs random work beside clients that follow their jobs, on one node and on three, and shows that the checker
// bites.
func TestFollowersGetEverything(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 150, 3: 40} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			o := runOptions{Nodes: nodes, Followers: 1}
			requireSeedsGood(t, seeds, "--followers 1", o)
			for _, mutation := range []string{"lost-piece", "doubled-piece", "dropped-rest", "endless-reader"} {
				requireBite(t, 20, "output reaches its readers", o, mutation, "none")
			}
		})
	}
}
