// Package reaper finds and kills the orphans of a job: processes that its commands have
// started and that run on in another process group or session.
//
// It owns nothing. It finds orphans by the session of the job's process, and by a variable
// that each command of the job has in its environment. The pid and start time of the job's
// process are in the job's livelock (Leader), so that orphans are found after a crash of the
// daemon. The daemon and the job process link this package, so it has few dependencies.
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

// EnvName carries, in the environment of every command of a job, Value of the job's lock
// file, which no other job has. Commands pass it on to their children.
const EnvName = "LOCKSTEP_JOB"

// EnvValue is what Variable is for the job with that lock file.
func EnvValue(livelock string) string { return filepath.Base(livelock) }

// Job says how what is left of a job is known. This process is never part of it.
type Job struct {
	Livelock string
	// Session is the pid of the job's process, where it cannot be anybody else's
	// meanwhile: what is left belongs to its session. Else 0.
	Session int
	// Leader is the job's process where nobody saw it end, so that its pid may be
	// another process's by now; nil: it is not known, or Session is. What is left
	// belongs to its session, and is told from a later session with the same number.
	Leader *Leader
	// KillTimeout is how long a killed process may take to be gone.
	KillTimeout time.Duration
	// OnKill is told of each process before it is killed.
	OnKill func(pid int)
}

// passesMax bounds for how many generations of processes Kill looks: processes may be born
// while others are killed.
const passesMax = 100

// Kill kills all that is left. One that is stuck in the kernel is waited for once: it can
// do nothing more when it comes out.
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

// killPass kills what is there, but for processes signalled before, and returns how many
// there were.
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

// killIfOrphan reads what the process is after its pidfd was opened: what is killed is what
// was looked at.
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

// inSession: the process lives and belongs to the session of the job's process.
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
