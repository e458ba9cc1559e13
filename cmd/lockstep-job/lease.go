package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/actors/core/run"
	"lockstep/persistence"
)

// exitLeaseOver is the exit status of a process that has ended itself.
const exitLeaseOver = 4

// lease ends the process when its node may not be the master of its cluster any more
// (DESIGN section 9): its command, and itself, without another word in the job's file,
// which belongs to the next master then. What its command has left is found by the
// lock file, which stays.
type lease struct {
	file   *persistence.Lease // nil: the node is alone, and the job needs no lease
	marker string             // in the environment of all that the job has started

	mu    sync.Mutex
	over  bool // no command is started any more
	group int  // of the command that runs; 0: none does
}

// watch looks all the time.
func (l *lease) watch() {
	if l.file == nil {
		return
	}
	for l.file.Holds() {
		time.Sleep(run.LeaseProbe)
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
		_ = unix.Kill(-group, unix.SIGTERM)
		for end := time.Now().Add(run.LeaseGrace); time.Now().Before(end) && l.runs(); {
			time.Sleep(10 * time.Millisecond)
		}
		if l.runs() {
			_ = unix.Kill(-group, unix.SIGKILL)
		}
	}
	killRemnants(l.marker)
	fmt.Fprintf(os.Stderr, "lockstep-job %d: this node is not the master any more, or its daemon is gone; the job ends here\n", os.Getpid())
	os.Exit(exitLeaseOver)
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

// remnantLooks is how often remnants are looked for: they may be born while others are
// killed.
const remnantLooks = 20

// killRemnants kills what has left the command's group: what carries the job's marker, or
// is in this process's session.
func killRemnants(marker string) {
	for range remnantLooks {
		found := false
		processes, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		for _, entry := range processes {
			pid, err := strconv.Atoi(entry.Name())
			if err != nil || pid == os.Getpid() || !isRemnant(pid, marker) {
				continue
			}
			found = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if !found {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func isRemnant(pid int, marker string) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err == nil && slices.Contains(strings.Split(string(environ), "\x00"), marker) {
		return true
	}
	session, err := unix.Getsid(pid)
	return err == nil && session == os.Getpid() && len(environ) > 0 // one that has ended has none
}
