package jobprocess

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/edge/pidfd"
	"lockstep/messages"
	"lockstep/persistence"
)

// probeInterval is how often a livelock is looked at whose process is not
// known, or cannot be watched.
const probeInterval = 250 * time.Millisecond

// watchedProbeInterval is how often a livelock is looked at although its process is watched.
const watchedProbeInterval = 30 * time.Second

// Adopt watches a job process of a former daemon. The pidfd is opened first,
// the livelock looked at then: while the livelock is held its process lives, so
// the number in the job file is still that process's. It can be told something
// as soon as Adopt returns.
func (p *Processes) Adopt(attempt uint64, id int64, pid int64, livelock string, jobActor *actor.PID) {
	l := &liveProcess{id: id, process: openProcess(int(pid)), livelock: livelock, ended: make(chan struct{})}
	held := isAlive(livelock) || p.lostLockFile(l, int(pid))
	if held {
		p.addLive(attempt, l)
	}
	go p.watchAdopted(l, attempt, int(pid), held, jobActor)
}

func (p *Processes) watchAdopted(l *liveProcess, attempt uint64, pid int, held bool, jobActor *actor.PID) {
	sawEnd := false // to end, so that its number was its own until now
	if l.process != nil {
		// The number in the file may be somebody else's, where people have
		// meddled: the livelock decides, unless it is the livelock that is gone.
		for held && !sawEnd && (isAlive(l.livelock) || p.lostLockFile(l, pid)) {
			sawEnd = l.process.EndsWithin(watchedProbeInterval)
		}
	}
	for isAlive(l.livelock) {
		time.Sleep(probeInterval)
	}
	p.removeLive(attempt)
	p.removePriorityMessage(l.id) // also that of a process which ended while there was no daemon
	if l.process != nil {
		_ = l.process.Close()
	}
	session := 0
	if sawEnd {
		session = pid
	}
	p.killOrphans(l.livelock, session)
	p.notify(jobActor, &messages.ProcessGone{Start: attempt, Text: "its process has ended while no daemon was watching, or was not its child"})
}

// lostLockFile: somebody has removed the lock file of a job process that lives.
// It is known by its pid and by how we start job processes.
func (p *Processes) lostLockFile(l *liveProcess, pid int) bool {
	if l.process == nil || l.process.Ended() {
		return false
	}
	if _, err := os.Lstat(l.livelock); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return p.isJobProcess(pid, l.id) && !l.process.Ended()
}

// isJobProcess: the process is one that we start for that job.
func (p *Processes) isJobProcess(pid int, id int64) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	want := strings.Join([]string{"lockstep-job", strconv.FormatInt(id, 10), p.config.DataDir, p.config.RunDir}, "\x00") + "\x00"
	return err == nil && string(line) == want
}

// openProcess: nil where the number is not known, or nobody's.
func openProcess(pid int) *pidfd.Process {
	process, err := pidfd.Open(pid)
	if err != nil {
		return nil
	}
	return process
}

// isAlive judges by the livelock, as everybody does; on any doubt it is alive.
func isAlive(livelock string) bool {
	held, _ := persistence.ProbeLivelock(livelock)
	return held
}
