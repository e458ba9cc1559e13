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
// of it still works on what the next job locks, and removes its lock file. A
// process that has ended in order has left nothing: it has removed its lock
// file itself, as the last thing it did.
func (p *Processes) clearAway(livelock string) {
	if livelock == "" {
		return
	}
	if _, err := os.Lstat(livelock); errors.Is(err, fs.ErrNotExist) {
		return
	}
	// Processes may be born while others are killed: look until none is found.
	for range 100 {
		if p.killMarked(marker(livelock)) == 0 {
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

// killMarked kills every process that carries the marker in its environment,
// and returns how many there were. The environment is read after the pidfd was
// opened, so that what is killed is what was looked at.
func (p *Processes) killMarked(marker []byte) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		p.config.Log.WithField("err", err).Error("cannot look for what is left of a dead job")
		return 0
	}
	killed := 0
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p.killIfMarked(pid, marker) {
			killed++
		}
	}
	return killed
}

func (p *Processes) killIfMarked(pid int, marker []byte) bool {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(pidfd) }()
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil || !marked(environ, marker) {
		return false
	}
	p.config.Log.WithField("pid", pid).Info("killing a process that a dead job has left")
	if unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	// One that is stuck in the kernel is not waited for without end: it can do
	// nothing more once it comes out.
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, int(killedMax.Milliseconds()))
	return true
}

func marked(environ, marker []byte) bool {
	for pair := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(pair, marker) {
			return true
		}
	}
	return false
}
