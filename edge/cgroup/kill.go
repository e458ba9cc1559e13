package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kill kills all processes of a group and of the groups below it, and waits until they have ended, for the timeout at most. The error says
// that a process has not ended. A process cannot leave by a fork meanwhile.
func Kill(path string, timeout time.Duration) error {
	if !isPopulated(path) {
		return nil
	}
	deadline := time.Now().Add(timeout)
	err := os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0)
	switch {
	case err == nil:
		return awaitEmpty(path, deadline)
	case isPopulated(path): // before Linux 5.14
		return killFrozen(path, deadline)
	}
	return nil
}

// killFrozen stops all processes of a group, so that none starts another one, and sends each SIGKILL, which also ends a stopped process. It
// looks again until the group is empty: a process that the kernel was making meanwhile is in the next list.
func killFrozen(path string, deadline time.Time) error {
	freezeErr := os.WriteFile(filepath.Join(path, "cgroup.freeze"), []byte("1"), 0)
	const pause = 5 * time.Millisecond
	for {
		below(path, func(path string) {
			for _, pid := range processes(path) {
				_ = unix.Kill(pid, unix.SIGKILL) // ESRCH: it has ended
			}
		})
		if err := awaitEmpty(path, time.Now().Add(pause)); err == nil {
			return nil
		} else if time.Now().After(deadline) {
			return errors.Join(err, freezeErr)
		}
	}
}

// processes are the processes of a group, without those of the groups below it, and without this process.
func processes(path string) (pids []int) {
	content, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	for line := range bytes.Lines(content) {
		// 0 is a process of another pid namespace. kill would take it for the own process group.
		if pid, err := strconv.Atoi(strings.TrimSpace(string(line))); err == nil && pid > 0 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isPopulated reports whether a living process is in a group or below it. Of a group that is gone it is false.
func isPopulated(path string) bool {
	content, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV)
	}
	populated, found := field(string(content), "populated")
	return !found || populated != 0
}

// awaitEmpty waits until a group has no living processes. The kernel tells of each change of cgroup.events.
func awaitEmpty(path string, deadline time.Time) error {
	events, err := os.Open(filepath.Join(path, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the group is gone
	}
	if err != nil {
		return fmt.Errorf("watch a control group: %w", err)
	}
	defer events.Close()
	for {
		content := make([]byte, 256)
		n, err := events.ReadAt(content, 0) // an event is told to a descriptor that has read the former state
		if populated, found := field(string(content[:n]), "populated"); found && populated == 0 || n == 0 && errors.Is(err, unix.ENODEV) {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("processes of the control group %s do not end", path)
		}
		fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		_, _ = unix.Poll(fds, int(left.Milliseconds())+1)
	}
}
