package persistence

import (
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// SweepTemp removes temporary files in dir whose writer died before its rename,
// and returns their names. A daemon calls it for each directory it writes to at
// its start, before its first Replace; job processes may be writing meanwhile.
//
// What it removes, and why that is safe:
//   - a name that tempName made, whose pid is that of no process, or of one that
//     has ended or has begun after the file was last written: the writer is gone;
//   - one with the caller's own pid: the caller has written nothing yet, so the
//     pid was used before (in a container it is the same at every start);
//   - any "*.tmp" last written before the machine booted: no process of that time
//     is left. This catches reused pids and other programs' files.
//
// All else is kept: a file that is left costs nothing but its bytes, and goes in
// a later sweep.
func (f *OSFiles) SweepTemp(dir string) (removed []string, err error) {
	const op = "sweep-temp"
	names, err := f.List(op, dir)
	if err != nil {
		return nil, err
	}
	booted, err := bootTime()
	if err != nil {
		return nil, fileError(op, "boot time for", dir, err)
	}
	var errs []error
	for _, name := range names {
		file := path.Join(dir, name)
		if !strings.HasSuffix(name, tempSuffix) || !isStaleTemp(f.abs(file), name, booted) {
			continue
		}
		if err := f.Remove(op, file); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(errs...)
}

// isStaleTemp applies SweepTemp's rule to the file fullName called base. One
// that cannot be examined is not stale: most likely it has just been renamed.
func isStaleTemp(fullName, base string, booted time.Time) bool {
	info, err := os.Lstat(fullName)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if pid, ok := tempOwner(base); ok && (pid == os.Getpid() || hasWriterEnded(pid, info.ModTime(), booted)) {
		return true
	}
	return info.ModTime().Before(booted)
}

// startTimeSlack is how much later than a file its writer's process may seem to have
// begun: clocks are coarse.
const startTimeSlack = time.Second

// hasWriterEnded is true if the process pid that wrote a file at the given time has
// ended. What cannot be told counts as living.
func hasWriterEnded(pid int, wrote, booted time.Time) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	state, ticks, ok := processStat(pid)
	if !ok {
		return false
	}
	const ticksPerSecond = 100 // USER_HZ, the same on every Linux
	started := booted.Add(time.Duration(ticks) * time.Second / ticksPerSecond)
	return state == "Z" || started.After(wrote.Add(startTimeSlack))
}

// processStat is the state of a process and when it began, in ticks since boot
// (proc_pid_stat(5), fields 3 and 22).
func processStat(pid int) (state string, ticks int64, ok bool) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, false
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	const stateField, startField = 0, 19 // counted from the third
	if len(fields) <= startField {
		return "", 0, false
	}
	ticks, err = strconv.ParseInt(fields[startField], 10, 64)
	return fields[stateField], ticks, err == nil
}
