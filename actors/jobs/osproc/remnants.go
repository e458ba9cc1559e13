package osproc

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// killedMax is how long a killed process may take to be gone.
const killedMax = 5 * time.Second

// clearAway kills what is left of a job whose process is gone, so that nothing
// of it still works on what the next job locks, and removes its lock file. What
// is left carries the job's marker in its environment, or belongs to the session
// of the job's process: session is that process's pid where it cannot be
// anybody else's meanwhile, else 0.
func (p *Processes) clearAway(livelock string, session int) {
	if livelock == "" {
		return // it never got as far as that
	}
	// Processes may be born while others are killed: look until none is found.
	// One that is stuck in the kernel is waited for once: it can do nothing more
	// when it comes out.
	signalled := map[int]bool{}
	for range 100 {
		if p.killRemnants(remnants{marker: marker(livelock), session: session}, signalled) == 0 {
			break
		}
	}
	if err := os.Remove(livelock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.config.Log.WithFields(map[string]any{"path": livelock, "err": err}).Warn("a dead job's lock file cannot be removed")
	}
}

// marker is what every command of a job carries in its environment, and passes
// on to its children.
func marker(livelock string) []byte { return []byte("LOCKSTEP_JOB=" + filepath.Base(livelock)) }

// remnants are how what is left of a job is known.
type remnants struct {
	marker  []byte
	session int // 0: not by its session
}

// killRemnants kills what is left of a job, but for processes signalled before,
// and returns how many there were. What a process is, is read after its pidfd
// was opened: what is killed is what was looked at.
func (p *Processes) killRemnants(r remnants, signalled map[int]bool) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		p.config.Log.WithField("err", err).Error("cannot look for what is left of a dead job")
		return 0
	}
	killed := 0
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || signalled[pid] {
			continue
		}
		if p.killIfRemnant(pid, r) {
			signalled[pid] = true
			killed++
		}
	}
	return killed
}

func (p *Processes) killIfRemnant(pid int, r remnants) bool {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(pidfd) }()
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if (err != nil || !marked(environ, r.marker)) && !inSession(pid, r.session) {
		return false
	}
	p.config.Log.WithField("pid", pid).Info("killing a process that a dead job has left")
	if unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, int(killedMax.Milliseconds()))
	return true
}

// inSession: the process lives and belongs to the session (proc_pid_stat(5),
// fields 3 and 6).
func inSession(pid, session int) bool {
	if session == 0 || pid == session {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	// The name, in parentheses, may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > 3 && string(fields[0]) != "Z" && string(fields[3]) == strconv.Itoa(session)
}

func marked(environ, marker []byte) bool {
	for pair := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(pair, marker) {
			return true
		}
	}
	return false
}
