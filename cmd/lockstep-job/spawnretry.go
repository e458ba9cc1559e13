package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/jobproc"
)

// How long a command whose process cannot be made is tried again, and how long the pauses
// are: a limit of processes, or a lack of memory, often passes within seconds.
const (
	spawnRetryMax   = time.Minute
	spawnPauseFirst = 50 * time.Millisecond
	spawnPauseMax   = time.Second
)

// retrySpawn calls start until it succeeds or fails for a reason that does not pass, for
// spawnRetryMax at most, or until killed is closed. It returns the last error. Nothing of the
// command has run when start fails, so that trying again runs nothing twice.
func retrySpawn(start func() error, killed <-chan struct{}, after func(time.Duration) <-chan time.Time) error {
	backoff := jobproc.Backoff{First: spawnPauseFirst, Max: spawnPauseMax}
	for waited := time.Duration(0); ; {
		err := start()
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOMEM) || waited >= spawnRetryMax {
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
