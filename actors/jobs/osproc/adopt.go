package osproc

import (
	"os"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
	"lockstep/persistence"
)

// probeInterval is how often a livelock is looked at whose process is not
// known, or cannot be watched.
const probeInterval = 250 * time.Millisecond

// backstop is how often a livelock is looked at although its process is watched.
const backstop = 30 * time.Second

// Adopt watches a job process of a former daemon. The pidfd is opened first,
// the livelock looked at then: while the livelock is held its process lives, so
// the number in the job file is still that process's.
func (p *Processes) Adopt(start uint64, id int64, pid int64, livelock string, to *actor.PID) {
	go func() {
		pidfd := openPidfd(int(pid))
		if alive(livelock) {
			p.enter(start, &living{id: id, pidfd: pidfd, livelock: livelock, gone: make(chan struct{})})
			for pidfd != nil && !exited(pidfd, backstop) && alive(livelock) {
				// The number in the file may be somebody else's, where people
				// have meddled: the livelock decides.
			}
		}
		for alive(livelock) {
			time.Sleep(probeInterval)
		}
		p.leave(start)
		if pidfd != nil {
			_ = pidfd.Close()
		}
		p.clearAway(livelock)
		p.tell(to, &messages.ProcessGone{Start: start, Text: "its process has ended while no daemon was watching, or was not its child"})
	}()
}

func openPidfd(pid int) *os.File {
	if pid <= 0 {
		return nil
	}
	pidfd, err := pollable(-1, pid)
	if err != nil {
		return nil
	}
	return pidfd
}

// alive judges by the livelock, as everybody does; on any doubt it is alive.
func alive(livelock string) bool {
	alive, _ := persistence.ProbeLivelock(livelock)
	return alive
}
