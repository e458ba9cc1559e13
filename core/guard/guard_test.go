package guard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/guard"
	"lockstep/core/jobproc"
)

func TestWhatTheGuardKills(t *testing.T) {
	for _, expired := range []time.Duration{0, 1, guard.LeaseGrace - 1, guard.LeaseGrace, time.Hour} {
		over := expired >= guard.LeaseGrace
		require.Equal(t, over, guard.Kills(guard.Held, expired), "%v", expired)
		require.True(t, guard.Kills(guard.Free, expired), "%v", expired)
		require.False(t, guard.Kills(guard.Missing, expired), "%v", expired)
	}
}

// The guard leaves a job process that runs the time to end its command itself, and is done before the next master begins.
func TestTheGuardFitsIntoTheFence(t *testing.T) {
	require.Less(t, jobproc.LeaseProbe+jobproc.LeaseGrace, guard.LeaseGrace)
	require.Less(t, guard.LeaseGrace+guard.Interval, jobproc.Fence)
}
