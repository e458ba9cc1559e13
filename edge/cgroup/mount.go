package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// root is where control groups of version 2 are mounted, unless the machine has those of version 1, too.
const root = "/sys/fs/cgroup"

// Resolve returns the path of a group on this machine. A path below /sys/fs/cgroup is taken below the mount of version 2, which is
// elsewhere on a machine that mounts version 1 there. Other paths stay.
func Resolve(path string) string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return path
	}
	var stat unix.Statfs_t
	if unix.Statfs(root, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC {
		return path
	}
	return resolve(path, mountOf(string(mounts)))
}

func resolve(path, mount string) string {
	relative, is := strings.CutPrefix(path, root+"/")
	if !is || mount == "" || strings.HasPrefix(path+"/", mount+"/") {
		return path
	}
	return filepath.Join(mount, relative)
}

// mountOf is where control groups of version 2 are mounted; "": nowhere. A line of mountinfo(5) has the mount point as its fifth field, and
// the type of the file system after a field "-".
func mountOf(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			return fields[4]
		}
	}
	return ""
}

// Leave moves this process out of the group of a command of the job with that lock file: to the group in which its job process is. It does
// nothing in a process that is in no such group.
func Leave(livelock string) error {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("look for the control group of this process: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("look for the mount of control groups: %w", err)
	}
	parent := outside(string(own), livelock)
	if parent == "" {
		return nil
	}
	err = os.WriteFile(filepath.Join(mountOf(string(mounts)), parent, "cgroup.procs"), []byte("0"), 0) // 0 is the process that writes
	if err != nil {
		return fmt.Errorf("leave the control group of a job's command: %w", err)
	}
	return nil
}

// outside is the group of job processes, for a process in that of a command of the job with that lock file, from the content of
// /proc/PID/cgroup; "": the process is in no such group.
func outside(content, livelock string) string {
	for line := range strings.Lines(content) {
		path, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !is {
			continue
		}
		for ; path != "/" && path != "."; path = filepath.Dir(path) {
			if OpOf(path, livelock) >= 0 {
				return strings.TrimSuffix(filepath.Dir(path), limitedSuffix)
			}
		}
	}
	return ""
}
