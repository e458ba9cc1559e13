package ownerwatch

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/edge/pidfd"
)

// Callers watches the processes that own reservations. It implements the interface Owners of package actors/config/clusterconfig. A
// caller with a livelock is dead when that is free; any other when its process has ended. Methods do not block. onDeath runs on
// other goroutines.
type Callers struct {
	owners  *Owners
	onDeath func(reserve.Caller)

	callbacks sync.WaitGroup
	mu        sync.Mutex
	closed    bool
	watched   map[reserve.Caller]*pidfd.Process // callers without livelock
}

// NewCallers returns a Callers that watches no process yet. livelockDir and own are as for New. onDeath is called once for each watch
// that ends by a death; of a caller with a livelock it names only the livelock.
func NewCallers(livelockDir, own string, onDeath func(reserve.Caller)) *Callers {
	c := &Callers{onDeath: onDeath, watched: map[reserve.Caller]*pidfd.Process{}}
	c.owners = New(livelockDir, own, func(livelock string) {
		onDeath(reserve.Caller{Known: true, Owner: lock.Owner{Livelock: livelock}})
	})
	return c
}

// Close ends all watches. When it returns, no callback runs, and none will run. A callback must not call it.
func (c *Callers) Close() {
	c.owners.Close()
	c.mu.Lock()
	c.closed = true
	for _, process := range c.watched {
		_ = process.Close()
	}
	c.mu.Unlock()
	c.callbacks.Wait()
}

// Watch calls onDeath once when the caller is dead, at once if it is dead already. A second Watch has no effect. A process outside
// of this pid namespace is not watched.
func (c *Callers) Watch(by reserve.Caller) {
	if by.Known {
		c.owners.Watch(by.Owner.Livelock, by.Owner.PID)
		return
	}
	if by.PID <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.watched[by] != nil {
		return
	}
	process, err := pidfd.Open(by.PID)
	switch {
	case errors.Is(err, syscall.ESRCH):
		process = nil
	case err != nil:
		return // no descriptor is left; the next Watch tries again
	case by.Program != "" && programOf(by.PID) != by.Program: // another process has the pid now
		_ = process.Close()
		process = nil
	default:
		c.watched[by] = process
	}
	c.callbacks.Go(func() { c.await(by, process) })
}

// await waits for the end of a process, and then reports the death of the caller. nil has ended. After Close nothing is reported.
func (c *Callers) await(by reserve.Caller, process *pidfd.Process) {
	if process != nil {
		if !process.AwaitEnd() {
			return // closed
		}
		c.mu.Lock()
		delete(c.watched, by)
		_ = process.Close()
		c.mu.Unlock()
	}
	c.onDeath(by)
}

// programOf returns the name of a process, "" if there is none.
func programOf(pid int) string {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(name), "\n")
}
