// Package cgroup makes, measures, limits and ends the control groups of commands (cgroups(7), version 2). Each command has a group of its
// own below or beside that of job processes, which is named after the lock file of its job and the index of its opcode. So a daemon finds
// what a dead job has left by names only, also after a crash.
//
// The package owns nothing: all state is in the kernel. The job process and the daemon link it, so it needs the standard library and
// golang.org/x/sys only. A group of version 2 needs no controllers to end its processes and to tell their CPU time.
package cgroup

import (
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

// mode is that of every control group.
const mode = 0o755

// Group is the control group of a command.
type Group struct {
	Path string
	dir  *os.File
}

// name is the name of the group of a command: that of the job's lock file and the index of the opcode.
func name(livelock string, op int) string { return filepath.Base(livelock) + "." + strconv.Itoa(op) }

// OpOf is the index of the opcode whose command has the group; -1: it is no group of the job with that lock file.
func OpOf(path, livelock string) int {
	text, found := strings.CutPrefix(filepath.Base(path), filepath.Base(livelock)+".")
	if op, err := strconv.Atoi(text); found && err == nil && op >= 0 {
		return op
	}
	return -1
}

// Make makes the group of a command below the parent. If it is there, it is used again.
func Make(parent, livelock string, op int) (*Group, error) {
	path := filepath.Join(parent, name(livelock, op))
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	dir, err := os.Open(path)
	if err == nil {
		err = IsGroup(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a control group: %w", err), dir.Close(), os.Remove(path))
	}
	return &Group{Path: path, dir: dir}, nil
}

// FD is the descriptor with which clone3 starts a process in the group. It is valid until Close.
func (g *Group) FD() int { return int(g.dir.Fd()) }

// Close forgets the group, which stays.
func (g *Group) Close() { _ = g.dir.Close() }

// IsGroup returns why a directory is no control group that processes can start in; nil: it is one.
func IsGroup(path string) error {
	_, err := os.Stat(filepath.Join(path, "cgroup.procs"))
	return err //nolint:wrapcheck // it names the file
}

// Of returns the paths of the groups of the job with that lock file, below the parent, with and without limits.
func Of(parent, livelock string) (paths []string) {
	each(parent, func(path string) {
		if OpOf(path, livelock) >= 0 {
			paths = append(paths, path)
		}
	})
	return paths
}

// LivelockOf is the name of the lock file of the job whose command has the group; "": it is no group of a command.
func LivelockOf(path string) string {
	livelock, op, found := strings.Cut(filepath.Base(path), ".")
	if _, err := strconv.Atoi(op); !found || err != nil || !strings.HasPrefix(livelock, "job_") {
		return ""
	}
	return livelock
}

// Populated returns the paths of the groups of commands below the parent that have living processes, with and without limits.
func Populated(parent string) (paths []string) {
	each(parent, func(path string) {
		if LivelockOf(path) != "" && isPopulated(path) {
			paths = append(paths, path)
		}
	})
	return paths
}

// each calls act for each directory below the parent, and below the parent of limited groups. Without a parent there are none.
func each(parent string, act func(path string)) {
	if parent == "" {
		return
	}
	for _, dir := range []string{parent, limitedBeside(parent)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() {
				act(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// Usage is what the processes of a group have used so far, with those that have ended.
type Usage struct {
	CPU time.Duration
	// MemoryPeak is in bytes; 0: the kernel does not tell it, which needs the memory controller and Linux 5.19.
	MemoryPeak int64
}

// UsageOf returns the usage of a group; false: the kernel does not tell it.
func UsageOf(path string) (Usage, bool) {
	content, err := os.ReadFile(filepath.Join(path, "cpu.stat"))
	if err != nil {
		return Usage{}, false
	}
	used, found := field(string(content), "usage_usec")
	if !found {
		return Usage{}, false
	}
	u := Usage{CPU: time.Duration(used) * time.Microsecond}
	if content, err := os.ReadFile(filepath.Join(path, "memory.peak")); err == nil {
		u.MemoryPeak, _ = strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64) // 0 on an error
	}
	return u, true
}

// field is the number after a word at the beginning of a line.
func field(content, word string) (n int64, found bool) {
	for line := range strings.Lines(content) {
		if text, is := strings.CutPrefix(line, word+" "); is {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Remove removes a group without processes, and the groups that its processes have made below it. A group with processes stays.
func Remove(path string) {
	if unix.Rmdir(path) != unix.EBUSY || isPopulated(path) {
		return
	}
	below(path, func(path string) { _ = unix.Rmdir(path) })
}

// RemoveEmpty removes the groups below the parent that have no processes, and whose job has ended. isAlive says of the name of a lock file
// whether its job process lives: that process may be about to use its group.
func RemoveEmpty(parent string, isAlive func(livelock string) bool) {
	each(parent, func(path string) {
		if livelock := LivelockOf(path); livelock != "" && !isAlive(livelock) {
			Remove(path)
		}
	})
}

// below calls act for a group and all groups below it, the deepest first.
func below(path string, act func(path string)) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			below(filepath.Join(path, e.Name()), act)
		}
	}
	act(path)
}
