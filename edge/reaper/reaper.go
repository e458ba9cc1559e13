// Package reaper finds and kills the orphans of a job: processes that the job's commands have
// started in another process group or session, and that still run. The daemon calls it after
// a job process has died and before it frees the job's locks; the job process calls it after
// it has ended a command by force.
//
// It owns nothing. It finds orphans by the session of the job process, and by a variable
// in the environment of each command of the job. The job's livelock file contains the pid and
// start time of the job process, so that a new daemon finds orphans after a crash. The daemon
// and the job process link this package, so it has few dependencies.
package reaper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// EnvName is the name of a variable in the environment of every command of a job. Its value is
// EnvValue of the job's lock file, which no other job has. Children inherit it.
const EnvName = "LOCKSTEP_JOB"

// EnvValue is the value of the variable EnvName for the job with that lock file.
func EnvValue(livelock string) string { return filepath.Base(livelock) }

// Job says how the orphans of a job are recognised. This process never counts as one.
type Job struct {
	Livelock string
	// Session is the pid of the job's process if the pid cannot be reused yet: orphans
	// belong to the session with that number. Else 0.
	Session int
	// Leader is the job's process if its end was not observed, so that its pid may have
	// been reused; nil: it is not known, or Session is set. Orphans belong to its session,
	// which Leader distinguishes from a later session with the same number.
	Leader *Leader
	// KillTimeout is how long a killed process may take to end.
	KillTimeout time.Duration
	// OnKill is called for each process before it is killed.
	OnKill func(pid int)
}

// passesMax bounds the passes of Kill over all processes: new processes may start while others
// are killed.
const passesMax = 100

// Kill kills all orphans. It waits once for a process that is stuck in the kernel, which can do
// nothing when it leaves the kernel.
func (j Job) Kill() error {
	if j.Leader != nil {
		now, err := bootID()
		if err != nil {
			return err
		}
		if now != j.Leader.Boot {
			j.Leader = nil
		}
	}
	signalled := map[int]bool{}
	for range passesMax {
		killed, err := j.killPass(signalled)
		if err != nil || killed == 0 {
			return err
		}
	}
	return nil
}

// killPass kills the orphans that were not signalled before, notes them in signalled, and returns their number.
func (j Job) killPass(signalled map[int]bool) (killed int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("look for what is left of a job: %w", err)
	}
	marker := []byte(EnvName + "=" + EnvValue(j.Livelock))
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || signalled[pid] {
			continue
		}
		if j.killIfOrphan(pid, marker) {
			signalled[pid] = true
			killed++
		}
	}
	return killed, nil
}

// killIfOrphan kills the process if it is an orphan of the job. It opens the pidfd before the
// check, so that it kills the checked process.
func (j Job) killIfOrphan(pid int, marker []byte) bool {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(pidfd) }()
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if (err != nil || !hasMarker(environ, marker)) && !j.inSession(pid) {
		return false
	}
	j.OnKill(pid)
	if unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, int(j.KillTimeout.Milliseconds()))
	return true
}

// inSession reports whether the process lives and belongs to the session of the job's process, of which the leader itself does not count.
func (j Job) inSession(pid int) bool {
	s, exists := readProcessStat(pid)
	switch {
	case !exists || s.state == "Z" || pid == s.session:
		return false
	case j.Session != 0:
		return s.session == j.Session
	default:
		return j.Leader != nil && s.session == j.Leader.PID && j.Leader.leads(s)
	}
}

func hasMarker(environ, marker []byte) bool {
	for pair := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(pair, marker) {
			return true
		}
	}
	return false
}
