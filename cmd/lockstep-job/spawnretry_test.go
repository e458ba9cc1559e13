package main

import (
	"io/fs"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A start that fails for lack of processes or memory is repeated. Any other failure is final, and so is the end of
// spawnRetryMax.
func TestACommandWaitsForAProcess(t *testing.T) {
	at := time.Unix(0, 0)
	var waited time.Duration
	after := func(d time.Duration) <-chan time.Time {
		waited += d
		ready := make(chan time.Time, 1)
		ready <- at
		return ready
	}
	tries := 0
	script := func(errs ...error) func() error {
		tries, waited = 0, 0
		return func() error {
			err := errs[min(tries, len(errs)-1)]
			tries++
			return err
		}
	}
	scarce := &fs.PathError{Op: "fork/exec", Path: "/bin/true", Err: unix.EAGAIN}
	require.NoError(t, retrySpawn(script(scarce, &fs.PathError{Err: unix.ENOMEM}, nil), nil, after))
	require.Equal(t, 3, tries)
	require.ErrorIs(t, retrySpawn(script(exec.ErrNotFound), nil, after), exec.ErrNotFound)
	require.Equal(t, 1, tries)
	require.ErrorIs(t, retrySpawn(script(scarce), nil, after), unix.EAGAIN)
	require.InDelta(t, spawnRetryMax, waited, float64(2*spawnPauseMax))

	killed := make(chan struct{})
	close(killed)
	never := func(time.Duration) <-chan time.Time { return nil }
	require.ErrorIs(t, retrySpawn(script(scarce), killed, never), unix.EAGAIN)
	require.Equal(t, 1, tries)
}
