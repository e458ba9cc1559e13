package sim

import (
	"fmt"
	"testing"
)

// TestACrowdStandsInNobodysWay runs random work beside a user who takes all connections that the daemon gives, and shows that the checker bites.
func TestACrowdStandsInNobodysWay(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 100, 3: 30} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			o := runOptions{Nodes: nodes, Crowd: 1}
			requireSeedsGood(t, seeds, "--crowd 1", o)
			requireBite(t, 20, "connections", o, "one-client", "none")
		})
	}
}
