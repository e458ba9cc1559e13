package admission_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/admission"
)

// The garbage of a large request is collected at its end if there is much of it; otherwise nothing is collected.
func TestMuchGarbageIsCollectedAtOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection but those of the test
	table := admission.NewTable()
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	request := func(garbage int) (before uint32) {
		runtime.GC()
		before = forced()
		_, end, err := table.Turn(as("ada"), admission.Large)
		require.NoError(t, err)
		for range garbage >> 20 {
			sink = make([]byte, 1<<20)
		}
		sink = nil
		end()
		return before
	}
	require.Equal(t, request(8<<20), forced())
	before := request(96 << 20)
	require.Eventually(t, func() bool { return forced() == before+1 }, 10*time.Second, time.Millisecond)
}

var sink []byte
