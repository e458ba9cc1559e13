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
	"lockstep/edge/cgroup"
	"lockstep/edge/reaper"
	"lockstep/persistence"
)

// exitLeaseOver is the exit status of a process whose lease is over.
const exitLeaseOver = 4

// lease ends the command and the process when this node may not be the master of its cluster (design.md "Master"). Then the
// process does not write the job file, which belongs to the next master. The lock file stays; it identifies orphans of
// the command.
type lease struct {
	file     *persistence.Lease // nil: the node is alone, and the job needs no lease
	livelock string             // of the job
	cgroup   string             // as in place

	mu    sync.Mutex // held by the goroutine that ends the process
	guard jobproc.LeaseGuard
	group int // process group of the running command; 0: none
}

// openLease opens the lease if the job needs one; nil: it needs none. Without its lease file a job that needs one must
// not begin: another node could work on the job too.
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

// watch checks the lease until the process ends. Without a lease it returns at once.
func (l *lease) watch() {
	for l.file != nil {
		time.Sleep(l.observe())
	}
}

// check returns if the lease is valid. Otherwise it ends the process and does not return.
func (l *lease) check() {
	for l.file != nil {
		again := l.observe()
		if !l.isOver() {
			return
		}
		time.Sleep(again)
	}
}

func (l *lease) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guard.Ending()
}

// observe looks at the lease and does what follows: it goes on, ends the command, or ends this process with all that it has started. The
// next look is due after again.
func (l *lease) observe() (again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	action, again := l.guard.Observe(time.Now(), l.expired(), l.group != 0)
	switch action {
	case jobproc.LeaseContinue:
	case jobproc.LeaseTerminate:
		_ = unix.Kill(-l.group, unix.SIGTERM)
	case jobproc.LeaseKill:
		if l.group != 0 {
			_ = unix.Kill(-l.group, unix.SIGKILL)
		}
		// The next master waits no longer than jobproc.Fence, and a killed process does nothing more.
		l.killOrphans(jobproc.LeaseProbe)
		fmt.Fprintf(os.Stderr, "lockstep-job %d: this node is no longer the master, or its daemon has ended; the job ends here\n", os.Getpid())
		os.Exit(exitLeaseOver)
	}
	return again
}

// expired is for how long the lease has been over; 0: it is valid.
func (l *lease) expired() time.Duration {
	if l.file.IsValid() {
		return 0
	}
	return max(1, l.file.ExpiredFor())
}

// orphanKillTimeout is how long an orphan that is killed at a forced end may take to end.
const orphanKillTimeout = 2 * time.Second

// killOrphans kills what is left of the job's commands: first in their control groups, which no process without root's rights leaves, then
// in their sessions and by their marker.
func (l *lease) killOrphans(killTimeout time.Duration) {
	for _, group := range cgroup.Of(l.cgroup, l.livelock) {
		if err := cgroup.Kill(group, killTimeout); err != nil {
			fmt.Fprintf(os.Stderr, "lockstep-job %d: %v\n", os.Getpid(), err)
		}
	}
	orphans := reaper.Job{Livelock: l.livelock, Session: os.Getpid(), KillTimeout: killTimeout, OnKill: func(int) {}}
	if err := orphans.Kill(); err != nil {
		fmt.Fprintf(os.Stderr, "lockstep-job %d: %v\n", os.Getpid(), err)
	}
}

// startCommand starts a command. The end of the lease ends its group, until commandEnded.
func (l *lease) startCommand(start func() (pid int, err error)) (err error) {
	l.mu.Lock()
	if l.guard.Ending() {
		l.mu.Unlock()
		select {} // another goroutine ends the process
	}
	defer l.mu.Unlock()
	l.group, err = start()
	return err
}

// commandEnded records that the command's group has ended. Its number may be used again.
func (l *lease) commandEnded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.group = 0
}
