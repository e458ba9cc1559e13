package sim

import "testing"

// TestACrowdStandsInNobodysWay runs random work beside a user who takes all connections that the daemon gives, and shows that the checker bites.
func TestACrowdStandsInNobodysWay(t *testing.T) {
	o := RunOptions{Nodes: 1, Crowd: 1}
	requireSeedsGood(t, 100, "--crowd 1", o)
	requireBite(t, 20, "connections", o, "one-client", "none")
}
