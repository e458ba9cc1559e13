package jobproc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// SIGTERM with a grace is only sent while the fence of the next master lasts.
func TestRemainingGrace(t *testing.T) {
	for over, want := range map[time.Duration]time.Duration{
		0:                            LeaseGrace,
		LeaseProbe:                   LeaseGrace,
		Fence - LeaseGrace:           LeaseGrace,
		Fence - 100*time.Millisecond: 100 * time.Millisecond,
		Fence:                        0,
		time.Duration(1<<63 - 1):     0,
	} {
		require.Equal(t, want, RemainingGrace(over), "over for %s", over)
	}
}

func TestTheEndOfALease(t *testing.T) {
	type look struct {
		at, expired time.Duration
		runs        bool
		want        LeaseAction
		again       time.Duration
	}
	for what, looks := range map[string][]look{
		"the command ends in its grace": {
			{0, 0, true, LeaseContinue, LeaseProbe},
			{LeaseProbe, 1, true, LeaseTerminate, leaseEndProbe},
			{LeaseProbe + 10*time.Millisecond, 1, true, LeaseContinue, leaseEndProbe},
			{LeaseProbe + 20*time.Millisecond, 1, false, LeaseKill, 0},
		},
		"the command ignores SIGTERM": {
			{0, time.Millisecond, true, LeaseTerminate, leaseEndProbe},
			{LeaseGrace - 1, LeaseGrace, true, LeaseContinue, leaseEndProbe},
			{LeaseGrace, LeaseGrace, true, LeaseKill, 0},
		},
		"no command runs":                      {{0, 1, false, LeaseKill, 0}},
		"the process stood still":              {{0, Fence, true, LeaseKill, 0}},
		"a renewal comes too late":             {{0, 1, true, LeaseTerminate, leaseEndProbe}, {LeaseGrace, 0, true, LeaseKill, 0}},
		"the process stood still for a second": {{0, Fence - 50*time.Millisecond, true, LeaseTerminate, leaseEndProbe}, {50 * time.Millisecond, Fence, true, LeaseKill, 0}},
	} {
		var g LeaseGuard
		for _, l := range looks {
			action, again := g.Observe(time.Unix(1000, 0).Add(l.at), l.expired, l.runs)
			require.Equal(t, l.want, action, "%s, at %v", what, l.at)
			require.Equal(t, l.again, again, "%s, at %v", what, l.at)
			require.Equal(t, g.Ending(), l.want != LeaseContinue || l.again == leaseEndProbe, what)
		}
	}
}
