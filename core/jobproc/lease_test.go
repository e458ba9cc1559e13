package jobproc

import (
	"testing"
	"time"
)

// A warning that takes time is given only while the fence of the next master lasts.
func TestRemainingGrace(t *testing.T) {
	for over, want := range map[time.Duration]time.Duration{
		0:                            LeaseGrace,
		LeaseProbe:                   LeaseGrace,
		Fence - LeaseGrace:           LeaseGrace,
		Fence - 100*time.Millisecond: 100 * time.Millisecond,
		Fence:                        0,
		time.Duration(1<<63 - 1):     0,
	} {
		if got := RemainingGrace(over); got != want {
			t.Errorf("over for %s: %s, want %s", over, got, want)
		}
	}
}
