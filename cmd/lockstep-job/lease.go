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

// lease ends the command and the process when this node may not be the master of its cluster
// (design.md 9). The process does not write the job's file then, which belongs to the next
// master. The lock file stays, and identifies orphans of the command.
type lease struct {
	file     *persistence.Lease // nil: the node is alone, and the job needs no lease
	livelock string             // of the job

	mu    sync.Mutex
	ended bool // the lease is over: no command is started
	group int  // process group of the running command; 0: none
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

// watch checks the lease periodically.
func (l *lease) watch() {
	if l.file == nil {
		return
	}
	for l.file.IsValid() {
		time.Sleep(jobproc.LeaseProbe)
	}
	l.endProcess()
}

// check returns if the lease is valid, and ends the process otherwise.
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

// endProcess ends the command, its orphans and this process. It does not return.
func (l *lease) endProcess() {
	l.mu.Lock()
	ended, group := l.ended, l.group
	l.ended = true
	l.mu.Unlock()
	if ended {
		select {} // another goroutine ends the process
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

// orphanKillTimeout is how long an orphan that is killed at a forced end may take to end.
const orphanKillTimeout = 2 * time.Second

// killOrphans kills processes of the job's commands outside the commands' groups.
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

// startCommand starts a command. The end of the lease ends its group, until commandEnded.
func (l *lease) startCommand(start func() (pid int, err error)) (err error) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		select {} // until endProcess exits
	}
	defer l.mu.Unlock()
	l.group, err = start()
	return err
}

// commandEnded records that the command's group has ended, whose number may be reused.
func (l *lease) commandEnded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.group = 0
}
