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
	ended bool // no command is started any more
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
	for l.file.IsValid() {
		time.Sleep(jobproc.LeaseProbe)
	}
	l.endProcess()
}

// check returns if the lease holds.
func (l *lease) check() {
	if l.file == nil {
		return
	}
	l.mu.Lock()
	ended := l.ended
	l.mu.Unlock()
	if ended || !l.file.IsValid() {
		l.endProcess()
	}
}

// endProcess does not return.
func (l *lease) endProcess() {
	l.mu.Lock()
	ended, group := l.ended, l.group
	l.ended = true
	l.mu.Unlock()
	if ended {
		select {} // somebody else is at it
	}
	if group != 0 {
		l.endGroup(group)
	}
	// The next master waits no longer than Fence, and a process does nothing more once it
	// is killed.
	killOrphans(l.livelock, jobproc.LeaseProbe)
	fmt.Fprintf(os.Stderr, "lockstep-job %d: this node is not the master any more, or its daemon is gone; the job ends here\n", os.Getpid())
	os.Exit(exitLeaseOver)
}

// endGroup ends the command's group, with a warning if there is time for one.
func (l *lease) endGroup(group int) {
	if grace := jobproc.RemainingGrace(l.file.ExpiredFor()); grace > 0 {
		_ = unix.Kill(-group, unix.SIGTERM)
		for end := time.Now().Add(grace); time.Now().Before(end) && l.commandRuns(); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if l.commandRuns() {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}

// orphanKillTimeout is how long a process that is killed at a forced end may take to be gone.
const orphanKillTimeout = 2 * time.Second

// killOrphans kills what the job's commands have left outside their groups.
func killOrphans(livelock string, killTimeout time.Duration) {
	orphans := reaper.Job{Livelock: livelock, Session: os.Getpid(), KillTimeout: killTimeout, OnKill: func(int) {}}
	if err := orphans.Kill(); err != nil {
		fmt.Fprintf(os.Stderr, "lockstep-job %d: %v\n", os.Getpid(), err)
	}
}

func (l *lease) commandRuns() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.group != 0
}

// startCommand starts a command, whose group is ended with the lease until ended is called.
func (l *lease) startCommand(start func() (pid int, err error)) (err error) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		select {} // until the end
	}
	defer l.mu.Unlock()
	l.group, err = start()
	return err
}

// commandEnded: nothing of the command's group is left. Its number may be another's next.
func (l *lease) commandEnded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.group = 0
}
