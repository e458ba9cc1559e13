package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/jobproc"
)

// A start of a command that fails because of a limit of processes or for lack of memory is repeated for spawnRetryMax,
// because this state often passes within seconds.
const (
	spawnRetryMax   = time.Minute
	spawnPauseFirst = 50 * time.Millisecond
	spawnPauseMax   = time.Second
)

// isShortage reports whether a start has failed because of a limit of processes or for lack of memory.
func isShortage(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM) }

// retrySpawn calls start until start succeeds, fails for a reason that does not pass, spawnRetryMax is over, or killed is
// closed. It returns the last error. A start that fails has run nothing of the command, so nothing runs twice.
func retrySpawn(start func() error, killed <-chan struct{}, after func(time.Duration) <-chan time.Time) error {
	backoff := jobproc.Backoff{First: spawnPauseFirst, Max: spawnPauseMax}
	for waited := time.Duration(0); ; {
		err := start()
		if !isShortage(err) || waited >= spawnRetryMax {
			return err
		}
		pause := backoff.Pause()
		select {
		case <-killed:
			return err
		case <-after(pause):
			waited += pause
		}
	}
}
