package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// queueLossMax is how long the queue's directory may be missing before the job is abandoned.
const queueLossMax = time.Minute

// exitNoQueue is the exit status of a process whose queue is missing.
const exitNoQueue = 5

// queueLoss measures how long the queue's directory has been missing: removed, or on a file
// system that is not mounted. A full disk does not count: the job's file waits until it can be
// written.
type queueLoss struct{ since time.Time }

// observe takes the error of a write, and returns how long the directory has been missing;
// 0: it exists.
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

// waitToRetry waits before the next attempt to write. If the queue's directory is missing and
// no opcode executes, SIGTERM ends the process.
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

// abandonJob ends the executing opcode and the process. The lock file stays: a daemon that
// finds the job's file again fails the job.
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
