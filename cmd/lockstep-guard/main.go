// Command lockstep-guard is the guard: it kills what a killed job process has left in the control groups of its commands while no daemon
// lives that would do so. Package guard decides; this program looks and kills.
//
// It keeps no state: each look reads control groups, lock files and lease. It has no socket, and no process waits for it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lockstep/core/guard"
	"lockstep/edge/cgroup"
	"lockstep/persistence"
)

func main() {
	c, err := parse(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "lockstep-guard: %v\n", err)
		os.Exit(2)
	}
	lock := c.awaitLock()
	fmt.Fprintf(os.Stderr, "lockstep-guard started: lock files in %s, control groups in %s\n", persistence.LivelockDir(c.RunDir), c.JobCgroup)
	for {
		if !lock.Holds(c.RunDir) { // the directory was made again
			_ = lock.Release()
			lock = c.awaitLock()
		}
		c.look()
		time.Sleep(guard.Interval)
	}
}

// awaitLock takes the lock that says that a guard runs. The daemon makes its directory at its first start.
func (c *config) awaitLock() *persistence.GuardLock {
	for {
		lock, err := persistence.LockGuard(c.RunDir)
		if err == nil {
			return lock
		}
		if !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "lockstep-guard: %v\n", err)
			os.Exit(1)
		}
		time.Sleep(guard.Interval)
	}
}

// look kills what must end now, and returns when it has ended, or has not within an interval.
//
// Order matters. A job process locks its lock file before the file has its name, and makes a group after that, so the lock file of a group
// that was found is locked, or its process has ended. No other process has a lock file or group of that name, ever. So a group whose lock
// file is free has no owner until it is killed. The lease is read after the groups were found: no process makes a group without a valid
// lease, so one that is over was valid when the group was made.
func (c *config) look() {
	groups := cgroup.Populated(c.JobCgroup)
	if len(groups) == 0 {
		return
	}
	expired := persistence.LeaseOverFor(c.RunDir)
	var kills sync.WaitGroup
	for _, group := range groups {
		file := lockFile(filepath.Join(persistence.LivelockDir(c.RunDir), cgroup.LivelockOf(group)))
		if !guard.Kills(file, expired) {
			continue
		}
		kills.Go(func() {
			if err := cgroup.Kill(group, guard.Interval); err != nil {
				fmt.Fprintf(os.Stderr, "lockstep-guard: %v\n", err)
				return
			}
			fmt.Fprintf(os.Stderr, "lockstep-guard: killed what was left in %s\n", group)
		})
	}
	kills.Wait()
}

func lockFile(path string) guard.LockFile {
	switch held, left := persistence.FindLivelock(path); {
	case held:
		return guard.Held
	case left:
		return guard.Free
	default:
		return guard.Missing
	}
}
