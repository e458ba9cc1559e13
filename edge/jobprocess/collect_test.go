package jobprocess

import (
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A collection waits until no process is being started.
func TestNoCollectionWhileAProcessIsStarted(t *testing.T) {
	c := &collector{percent: 100}
	done, before := make(chan uint64, 1), collections()
	c.during(func() {
		go func() { done <- c.collect() }()
		require.Eventually(t, func() bool {
			if c.starts.TryRLock() {
				c.starts.RUnlock()
				return false
			}
			return true // the collection waits
		}, 30*time.Second, time.Millisecond)
		require.Equal(t, before, collections())
	})
	require.GreaterOrEqual(t, <-done, uint64(heapMin))
	require.Greater(t, collections(), before)
}

// A collection begins when the heap has grown.
func TestCollectionsBeginWhenTheHeapHasGrown(t *testing.T) {
	c := newCollector()
	defer c.close()
	before := collections()
	kept := make([]byte, 2*heapMin)
	require.Eventually(t, func() bool { return collections() > before && len(kept) > 0 }, 30*time.Second, time.Millisecond)
}

// collections is how often a collection was requested.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
