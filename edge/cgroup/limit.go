package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Commands with limits have their groups beside the group of job processes, in one of its name with this suffix: below it controllers are
// on, and a group with controllers for others may have no processes itself.
const limitedSuffix = ".limited"

func limitedBeside(jobs string) string { return jobs + limitedSuffix }

// Controllers returns the group around that of job processes, and the controllers that it has for the groups of commands. The error says
// why it cannot be used.
func Controllers(jobs string) (unit string, controllers []string, err error) {
	unit = filepath.Dir(jobs)
	content, err := os.ReadFile(filepath.Join(unit, "cgroup.controllers"))
	if err != nil {
		return unit, nil, fmt.Errorf("%s is no control group of version 2 that exists: %w", unit, err)
	}
	return unit, strings.Fields(string(content)), nil
}

// MakeLimited makes the group of a command, in which these controllers are on. jobs is the group of job processes.
func MakeLimited(jobs, livelock string, op int, controllers []string) (*Group, error) {
	parent := limitedBeside(jobs)
	if err := enable(filepath.Dir(jobs), controllers); err != nil {
		return nil, err
	}
	if err := os.Mkdir(parent, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	if err := enable(parent, controllers); err != nil {
		return nil, err
	}
	return Make(parent, livelock, op)
}

// enable makes controllers of a group available to the groups below it. What is on stays on.
func enable(path string, controllers []string) error {
	file := filepath.Join(path, "cgroup.subtree_control")
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read which controllers are on: %w", err)
	}
	on := strings.Fields(string(content))
	for _, c := range controllers {
		if slices.Contains(on, c) {
			continue
		}
		err := os.WriteFile(file, []byte("+"+c), 0)
		if errors.Is(err, unix.EBUSY) { // the group has processes, such as that of a unit which only keeps it
			if err = moveProcesses(path, filepath.Join(path, "unit")); err == nil {
				err = os.WriteFile(file, []byte("+"+c), 0)
			}
		}
		if err != nil {
			return fmt.Errorf("switch the controller %s on: %w", c, err)
		}
	}
	return nil
}

// moveProcesses moves the processes of a group into one that it makes.
func moveProcesses(from, to string) error {
	if err := os.Mkdir(to, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a control group: %w", err)
	}
	for _, pid := range processes(from) {
		err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
			return fmt.Errorf("move process %d to another control group: %w", pid, err)
		}
	}
	return nil
}

// Set writes a value into the first of these files that the group has. Each is a file and its value. The error is fs.ErrNotExist if the
// group has none of them.
func (g *Group) Set(files [][2]string) error {
	for _, f := range files {
		path := filepath.Join(g.Path, f[0])
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.WriteFile(path, []byte(f[1]), 0); err != nil {
			return fmt.Errorf("set a limit: %w", err)
		}
		return nil
	}
	return fs.ErrNotExist
}

// RanOutOfMemory reports whether the kernel has killed a process of the group because of its limit of memory.
func (g *Group) RanOutOfMemory() bool {
	content, err := os.ReadFile(filepath.Join(g.Path, "memory.events"))
	if err != nil {
		return false
	}
	killed, _ := field(string(content), "oom_kill")
	return killed > 0
}
