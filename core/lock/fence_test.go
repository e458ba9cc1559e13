package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
)

func TestFence(t *testing.T) {
	began := time.Unix(1000, 0)
	f := lock.NewFence(began, 2*time.Second)
	require.Equal(t, 2*time.Second, f.Remaining(began))
	require.Equal(t, time.Millisecond, f.Remaining(began.Add(2*time.Second-time.Millisecond)))
	require.Zero(t, f.Remaining(began.Add(2*time.Second)))
	require.Zero(t, f.Remaining(began.Add(time.Hour)))
	require.Zero(t, lock.NewFence(began, 0).Remaining(began))
	require.Zero(t, lock.Fence{}.Remaining(began))
}
