package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// absenceMax is how long the queue's directory may be gone before the job is given up.
const absenceMax = time.Minute

// exitNoQueue is the exit status of a process whose queue is gone.
const exitNoQueue = 5

// absence is the time for which the queue's directory has been gone: removed, or on a
// file system that is not mounted. A disk that is full is none: what the job did is
// kept until it can be written.
type absence struct{ since time.Time }

// after takes the error of a write, and returns for how long the directory has been
// gone; 0: it is there.
func (a *absence) after(err error, now time.Time) time.Duration {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		a.since = time.Time{}
		return 0
	case a.since.IsZero():
		a.since = now
	}
	return max(now.Sub(a.since), 1)
}

// pause waits before the next attempt to write. Where the queue's directory is gone,
// SIGTERM ends a process that has nothing left to do but that: nothing executes.
func (d *driver) pause(delay, gone time.Duration) {
	if gone >= absenceMax {
		d.giveUp(fmt.Sprintf("for %v", gone.Round(time.Second)))
	}
	var signals <-chan os.Signal
	select {
	case <-d.executed:
		if gone > 0 {
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
				d.giveUp("and the process was told to end")
			}
		}
	}
}

// giveUp ends what executes, and the process. Its lock file stays: a daemon that finds
// the job's file again fails the job.
func (d *driver) giveUp(why string) {
	d.kill()
	for over := false; !over; {
		select {
		case <-d.events:
		case <-d.executed:
			over = true
		}
	}
	fmt.Fprintf(os.Stderr, "lockstep-job %d: the directory of the queue is gone, %s; the job ends here\n", d.machine.Job().ID, why)
	os.Exit(exitNoQueue)
}
