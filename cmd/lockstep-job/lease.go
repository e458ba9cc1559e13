package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/jobproc"
	"lockstep/edge/reaper"
	"lockstep/persistence"
)

// exitLeaseOver is the exit status of a process that has ended itself.
const exitLeaseOver = 4

// lease ends the process when its node may not be the master of its cluster any more
// (design.md 9): its command, and itself, without another word in the job's file,
// which belongs to the next master then. What its command has left is found by the
// lock file, which stays.
type lease struct {
	file     *persistence.Lease // nil: the node is alone, and the job needs no lease
	livelock string             // of the job

	mu    sync.Mutex
	over  bool // no command is started any more
	group int  // of the command that runs; 0: none does
}

// openLease opens the lease if the job needs one; nil: it needs none. Without its file a
// job that needs one must not begin: another node could work beside it.
func openLease(runDir, permission string) (*persistence.Lease, error) {
	if permission == jobproc.LeaseNotRequired {
		return nil, nil //nolint:nilnil // a node that is alone
	}
	file, err := persistence.OpenLease(runDir)
	if permission == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a daemon of an older version, and a node that is alone
	}
	return file, err
}

// watch looks all the time.
func (l *lease) watch() {
	if l.file == nil {
		return
	}
	for l.file.Holds() {
		time.Sleep(jobproc.LeaseProbe)
	}
	l.end()
}

// check returns if the lease holds.
func (l *lease) check() {
	if l.file == nil {
		return
	}
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	if over || !l.file.Holds() {
		l.end()
	}
}

// end does not return.
func (l *lease) end() {
	l.mu.Lock()
	over, group := l.over, l.group
	l.over = true
	l.mu.Unlock()
	if over {
		select {} // somebody else is at it
	}
	if group != 0 {
		l.endGroup(group)
	}
	// The next master waits no longer than Fence, and a process does nothing more once it
	// is killed.
	killLeft(l.livelock, jobproc.LeaseProbe)
	fmt.Fprintf(os.Stderr, "lockstep-job %d: this node is not the master any more, or its daemon is gone; the job ends here\n", os.Getpid())
	os.Exit(exitLeaseOver)
}

// endGroup ends the command's group, with a warning if there is time for one.
func (l *lease) endGroup(group int) {
	if grace := jobproc.RemainingGrace(l.file.OverFor()); grace > 0 {
		_ = unix.Kill(-group, unix.SIGTERM)
		for end := time.Now().Add(grace); time.Now().Before(end) && l.runs(); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if l.runs() {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}

// leftMax is how long a process that is killed at a forced end may take to be gone.
const leftMax = 2 * time.Second

// killLeft kills what the job's commands have left outside their groups.
func killLeft(livelock string, goneWithin time.Duration) {
	left := reaper.Job{Livelock: livelock, Session: os.Getpid(), GoneWithin: goneWithin, Killing: func(int) {}}
	if err := left.Kill(); err != nil {
		fmt.Fprintf(os.Stderr, "lockstep-job %d: %v\n", os.Getpid(), err)
	}
}

func (l *lease) runs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.group != 0
}

// start starts a command, whose group is ended with the lease until ended is called.
func (l *lease) start(start func() (pid int, err error)) (err error) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		select {} // until the end
	}
	defer l.mu.Unlock()
	l.group, err = start()
	return err
}

// ended: nothing of the command's group is left. Its number may be another's next.
func (l *lease) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.group = 0
}
