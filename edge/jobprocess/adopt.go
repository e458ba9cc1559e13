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

// backstop is how often a livelock is looked at although its process is watched.
const backstop = 30 * time.Second

// Adopt watches a job process of a former daemon. The pidfd is opened first,
// the livelock looked at then: while the livelock is held its process lives, so
// the number in the job file is still that process's. It can be told something
// as soon as Adopt returns.
func (p *Processes) Adopt(start uint64, id int64, pid int64, livelock string, to *actor.PID) {
	l := &living{id: id, process: openProcess(int(pid)), livelock: livelock, gone: make(chan struct{})}
	held := alive(livelock) || p.lostItsLock(l, int(pid))
	if held {
		p.enter(start, l)
	}
	go p.watch(l, start, int(pid), held, to)
}

func (p *Processes) watch(l *living, start uint64, pid int, held bool, to *actor.PID) {
	seen := false // to end, so that its number was its own until now
	if l.process != nil {
		// The number in the file may be somebody else's, where people have
		// meddled: the livelock decides, unless it is the livelock that is gone.
		for held && !seen && (alive(l.livelock) || p.lostItsLock(l, pid)) {
			seen = l.process.EndsWithin(backstop)
		}
	}
	for alive(l.livelock) {
		time.Sleep(probeInterval)
	}
	p.leave(start)
	p.forgetPriority(l.id) // also that of a process which ended while there was no daemon
	if l.process != nil {
		_ = l.process.Close()
	}
	session := 0
	if seen {
		session = pid
	}
	p.clearAway(l.livelock, session)
	p.tell(to, &messages.ProcessGone{Start: start, Text: "its process has ended while no daemon was watching, or was not its child"})
}

// lostItsLock: somebody has removed the lock file of a job process that lives.
// It is known by its pid and by how we start job processes.
func (p *Processes) lostItsLock(l *living, pid int) bool {
	if l.process == nil || l.process.Ended() {
		return false
	}
	if _, err := os.Lstat(l.livelock); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return p.isJob(pid, l.id) && !l.process.Ended()
}

// isJob: the process is one that we start for that job.
func (p *Processes) isJob(pid int, id int64) bool {
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

// alive judges by the livelock, as everybody does; on any doubt it is alive.
func alive(livelock string) bool {
	alive, _ := persistence.ProbeLivelock(livelock)
	return alive
}
