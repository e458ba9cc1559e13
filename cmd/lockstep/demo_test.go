package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After any end of a demonstration, its jobs, its daemon and its directory are gone.
func TestAnInterruptedDemonstrationLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{
		"SIGINT":  {syscall.SIGINT, 130},
		"SIGTERM": {syscall.SIGTERM, 143},
		"SIGHUP":  {syscall.SIGHUP, 129},
	} {
		t.Run(name, func(t *testing.T) {
			if signal.Ignored(c.signal) {
				t.Skip("NOT RUN: this process ignores the signal, as below nohup, and so do the programs that it starts")
			}
			d := startDemonstration(t)
			d.until("10 % counted") // a command runs
			require.NoError(t, d.cmd.Process.Signal(c.signal))
			d.ends(c.code)
		})
	}
}

// The reader closes the pipe, as in `lockstep demo | head -3`.
func TestADemonstrationThatIsNotReadLeavesNothing(t *testing.T) {
	d := startDemonstration(t)
	d.until("Submitting")
	require.NoError(t, d.stdout.Close())
	d.ends(141)
}

// The daemon may not answer calls yet.
func TestADemonstrationInterruptedAtItsStartLeavesNothing(t *testing.T) {
	d := startDemonstration(t)
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(d.tmp)
		return err == nil && len(entries) > 0
	}, realPatience, time.Millisecond)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	d.ends(143)
}

func TestAnInterruptedDemonstrationOfAClusterLeavesNothing(t *testing.T) {
	d := startDemonstration(t, "--cluster")
	d.until("kill -9 of")
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGINT))
	d.ends(130)

	d = startDemonstration(t, "--cluster")
	d.until("node init")
	require.NoError(t, d.stdout.Close())
	d.ends(141)
}

// The killed daemon breaks sockets of the program, which must not end it.
func TestADemonstrationSucceeds(t *testing.T) {
	d := startDemonstration(t)
	d.until("kill -9 of the daemon")
	d.until("success")
	d.ends(0)
}
