package sim

import (
	"fmt"
	"testing"
)

// TestShownProgressWasSaid runs random work beside clients that look at the progress of commands, on one node and on three, and shows that
// the checker bites.
func TestShownProgressWasSaid(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 150, 3: 30} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			o := runOptions{Nodes: nodes, Progress: 1}
			requireSeedsGood(t, seeds, "--progress 1", o)
			requireBite(t, 20, "progress", o, "lasting-progress", "none")
		})
	}
}
