package jobprocess

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/jobs"
	"lockstep/edge/pidfd"
	"lockstep/edge/reaper"
	"lockstep/messages"
	"lockstep/persistence"
)

// probeInterval is the pause between probes of a livelock whose process is not known, or
// cannot be watched.
const probeInterval = 250 * time.Millisecond

// watchedProbeInterval is the pause between probes of a livelock whose process is watched.
const watchedProbeInterval = 30 * time.Second

// Adopt watches a job process that a former daemon started. It opens the pidfd before it
// probes the livelock: a held livelock means that the process lives, so that its pid in the
// job file still belongs to it. Tell reaches the process as soon as Adopt returns.
func (p *Processes) Adopt(attempt uint64, job jobs.Job, pid int64, livelock string, jobActor *actor.PID) {
	l := &liveProcess{job: job, process: openProcess(int(pid)), pid: int(pid), livelock: livelock, ended: make(chan struct{})}
	// After the pidfd is open: if the livelock is held now, the process lives, and the pidfd is not that of a later process with its pid.
	held := isAlive(livelock) || p.lostLockFile(l, int(pid))
	var leader *reaper.Leader
	if held {
		leader = leaderOf(l.process, int(pid))
		l.signal(syscall.SIGCONT) // the former daemon may have died while it carried out a cancel
		// Before this returns, so that an order that follows Adopt finds the process.
		p.addLive(attempt, l)
		p.watchFile(attempt, job, livelock, jobActor)
	}
	go p.watchAdopted(l, attempt, int(pid), held, leader, jobActor)
}

// Probe lets the watch of an adopted process look at its livelock now.
func (p *Processes) Probe(attempt uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.live[attempt]; l != nil && l.process != nil {
		l.process.Wake()
	}
}

func (p *Processes) watchAdopted(l *liveProcess, attempt uint64, pid int, held bool, leader *reaper.Leader, jobActor *actor.PID) {
	sawEnd := false // the end of the process was observed, so the pid belonged to it until then
	if l.process != nil {
		// The pid in a job file that an operator has edited may belong to another
		// process. So the livelock decides, unless the livelock itself was removed.
		for held && !sawEnd && (isAlive(l.livelock) || p.lostLockFile(l, pid)) {
			sawEnd = l.process.EndsWithin(watchedProbeInterval)
		}
	}
	// The livelock has the last word: as long as it is held, a process of the job may be alive, whatever the pid says.
	for isAlive(l.livelock) {
		time.Sleep(probeInterval)
	}
	p.removeLive(attempt)
	p.removePriorityMessage(l.job.ID) // also that of a process that ended while no daemon ran
	if l.process != nil {
		_ = l.process.Close()
	}
	led := session{}
	if sawEnd {
		led.leader = leader
	}
	// Orphans are killed before the end is reported: after that report the job's locks go to other owners.
	neverBegan, used := p.cleanUp(l.job, l.livelock, led)
	p.notify(jobActor, &messages.ProcessGone{
		Attempt:    attempt,
		Text:       "its process has ended while no daemon was watching, or was not its child",
		NeverActed: neverBegan,
		Canceled:   l.canceled.Load(),
		Usage:      used.encoded,
		UsageOp:    int32(used.op),
	})
}

// lostLockFile reports whether the lock file of a live job process was removed. It recognises
// the process by its pid and its command line.
func (p *Processes) lostLockFile(l *liveProcess, pid int) bool {
	if l.process == nil || l.process.Ended() {
		return false
	}
	if _, err := os.Lstat(l.livelock); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return p.isJobProcess(pid, l.job) && !l.process.Ended()
}

// isJobProcess reports whether the process has the command line that spawn gives to the
// process of that job, and the fork server to its child: there zero bytes follow.
func (p *Processes) isJobProcess(pid int, job jobs.Job) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	_, args := p.commandLine(job)
	return err == nil && strings.TrimRight(string(line), "\x00") == strings.Join(args, "\x00")
}

// leaderOf returns the process as the leader of its session; nil: it has ended, or is not known.
func leaderOf(process *pidfd.Process, pid int) *reaper.Leader {
	if process == nil {
		return nil
	}
	leader, err := reaper.LeaderOf(pid)
	if err != nil || process.Ended() { // the pid may belong to another process then
		return nil
	}
	return &leader
}

// openProcess opens a pidfd; nil: the pid is unknown, or no process has it.
func openProcess(pid int) *pidfd.Process {
	process, err := pidfd.Open(pid)
	if err != nil {
		return nil
	}
	return process
}

// isAlive reports whether the process of a livelock lives. On an error it counts as alive.
func isAlive(livelock string) bool {
	held, _ := persistence.ProbeLivelock(livelock)
	return held
}
