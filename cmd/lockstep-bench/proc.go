package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// residentBytes is the resident memory of a process, in bytes.
func residentBytes(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	pages, err := statusField(string(content), "VmRSS")
	return float64(pages) * 1024, err
}

// contextSwitches are the voluntary context switches of each thread of a process so far, the number of
// times that it went to sleep.
func contextSwitches(pid int) (map[string]int64, error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		if counts[path], err = statusField(string(content), "voluntary_ctxt_switches"); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	return counts, nil
}

// switchesBetween is the number of switches between two readings. All switches of a new thread
// count.
func switchesBetween(before, after map[string]int64) (sum int64) {
	for thread, count := range after {
		sum += count - before[thread]
	}
	return sum
}

// statusField is the number in a field of /proc/PID/status, without its unit.
func statusField(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		key, value, found := strings.Cut(line, ":")
		if !found || key != name {
			continue
		}
		words := strings.Fields(value)
		if len(words) == 0 {
			break
		}
		return strconv.ParseInt(words[0], 10, 64)
	}
	return 0, fmt.Errorf("there is no %s", name)
}

// mount is one line of /proc/PID/mountinfo.
type mount struct {
	point, kind, source, options string
	device                       string // major:minor
}

// mountOf is the mount of a path: of the mounts with the longest point above it, the last. ok is false if no mount is above it.
func mountOf(mountinfo, path string) (found mount, ok bool) {
	for line := range strings.Lines(mountinfo) {
		m, well := parseMount(line)
		if !well || !below(path, m.point) {
			continue
		}
		if !ok || len(m.point) >= len(found.point) {
			found, ok = m, true
		}
	}
	return found, ok
}

func below(path, point string) bool {
	return point == "/" || path == point || strings.HasPrefix(path, point+"/")
}

// parseMount: id, parent, device, root, point, options, optional fields, "-", kind,
// source, options of the file system.
func parseMount(line string) (mount, bool) {
	ours, theirs, found := strings.Cut(line, " - ")
	left, right := strings.Fields(ours), strings.Fields(theirs)
	if !found || len(left) < 6 || len(right) < 3 {
		return mount{}, false
	}
	point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(left[4])
	return mount{device: left[2], point: point, options: left[5] + "," + right[2], kind: right[0], source: right[1]}, true
}
