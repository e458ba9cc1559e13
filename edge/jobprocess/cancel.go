package jobprocess

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/edge/pidfd"
)

const (
	// suspendMax is how long a process may take to stop after SIGSTOP. One that waits for a disk takes longer, and goes on.
	suspendMax = 200 * time.Millisecond
	// suspendProbe is the pause between two looks at a process that is to stop.
	suspendProbe = time.Millisecond
)

// cancelGaneti carries out a cancel of a job of Ganeti's process, which itself looks at a cancel when its attempt to get locks
// ends, after 5 to 79 seconds. While the process is stopped its file does not change, and the process writes there that an opcode
// is running before it begins to execute it. So a process that executes no opcode can be ended; any other gets SIGTERM, and
// cancels the opcodes after the one that runs. If the daemon dies before it has ended or continued the process, the next one
// continues it (Adopt).
func (p *Processes) cancelGaneti(l *liveProcess) {
	l.cancel.Lock()
	defer l.cancel.Unlock()
	if l.suspend() && p.executesNothing(l.job) {
		// Before the kill, because the watch reports it with the end of the process.
		l.canceled.Store(true)
		l.signal(syscall.SIGKILL)
		return
	}
	l.signal(syscall.SIGCONT)
	if order := (jobs.Order{Kind: jobs.StopBeforeNext}); !l.held.hold(order, func() bool { return p.takesSignals(l.job) }) {
		l.signal(syscall.SIGTERM)
	}
}

// suspend stops the process with SIGSTOP, and reports whether all of it has stopped within suspendMax.
func (l *liveProcess) suspend() bool {
	if l.process == nil {
		return false
	}
	l.signal(syscall.SIGSTOP)
	for deadline := time.Now().Add(suspendMax); !l.process.Ended(); time.Sleep(suspendProbe) {
		if isStopped(l.process, l.pid) {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
	return false
}

// isStopped reports whether all threads of a process are stopped.
func isStopped(process *pidfd.Process, pid int) bool {
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/[0-9]*/stat")
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		after := bytes.LastIndexByte(stat, ')') // the name of the program may have any content
		if err != nil || after < 0 || !bytes.HasPrefix(stat[after:], []byte(") T")) {
			return false
		}
	}
	return !process.Ended() // else the pid may belong to another process
}

// executesNothing reports whether the file of a job says that no opcode executes, and that the job has not ended.
func (p *Processes) executesNothing(started jobs.Job) bool {
	content, err := os.ReadFile(filepath.Join(p.config.DataDir, paths.JobPath(started.ID)))
	if err != nil {
		return false
	}
	j, err := job.Decode(content)
	if err != nil || j.Status().Final() {
		return false
	}
	executing, _ := j.Progress()
	return executing < 0
}
