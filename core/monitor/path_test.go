package monitor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/monitor"
)

// What walks over Paths comes to each resource.
func TestPathsNameEachResource(t *testing.T) {
	found := map[monitor.Resource]bool{}
	for _, path := range monitor.Paths() {
		resource, _, _ := monitor.FindResource(path)
		found[resource] = true
	}
	for r := monitor.NoResource; r <= monitor.SingleReport; r++ {
		require.True(t, found[r], "%d", r)
	}
}
