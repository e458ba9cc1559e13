package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// queueLossMax is how long the queue's directory may be gone before the job is given up.
const queueLossMax = time.Minute

// exitNoQueue is the exit status of a process whose queue is gone.
const exitNoQueue = 5

// queueLoss is the time for which the queue's directory has been gone: removed, or on a
// file system that is not mounted. A disk that is full is none: what the job did is
// kept until it can be written.
type queueLoss struct{ since time.Time }

// observe takes the error of a write, and returns for how long the directory has been
// gone; 0: it is there.
func (a *queueLoss) observe(err error, now time.Time) time.Duration {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		a.since = time.Time{}
		return 0
	case a.since.IsZero():
		a.since = now
	}
	return max(now.Sub(a.since), 1)
}

// waitToRetry waits before the next attempt to write. Where the queue's directory is gone,
// SIGTERM ends a process that has nothing left to do but that: nothing executes.
func (d *driver) waitToRetry(delay, lostFor time.Duration) {
	if lostFor >= queueLossMax {
		d.abandonJob(fmt.Sprintf("for %v", lostFor.Round(time.Second)))
	}
	var signals <-chan os.Signal
	select {
	case <-d.executionDone:
		if lostFor > 0 {
			signals = d.signals
		}
	default:
	}
	due := time.NewTimer(delay)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			return
		case s := <-signals:
			if s == syscall.SIGTERM {
				d.abandonJob("and the process was told to end")
			}
		}
	}
}

// abandonJob ends what executes, and the process. Its lock file stays: a daemon that finds
// the job's file again fails the job.
func (d *driver) abandonJob(reason string) {
	d.cancelExecution()
	for ended := false; !ended; {
		select {
		case <-d.events:
		case <-d.executionDone:
			ended = true
		}
	}
	fmt.Fprintf(os.Stderr, "lockstep-job %d: the directory of the queue is gone, %s; the job ends here\n", d.machine.Job().ID, reason)
	os.Exit(exitNoQueue)
}
