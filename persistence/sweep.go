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

// SweepTemp removes temporary files in dir whose writer died before the rename, and returns their
// names. A daemon calls it at its start for each directory that it writes to, before its first
// Replace. Job processes may be writing at the same time.
//
// It removes:
//
//   - a file named by tempName whose pid no process has, or a process that has ended or
//     has begun after the last write: the writer is gone;
//   - such a file with the caller's own pid: the caller has written nothing yet, so an
//     earlier process had the pid (in a container it is the same at every start);
//   - any "*.tmp" last written before the machine booted: its writer is gone, even if its
//     pid is in use or another program wrote it.
//
// It keeps all other files. A file that is left costs only its space, and a later sweep removes
// it.
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

// isStaleTemp reports whether the rule of SweepTemp lets the file fullName with the base name base be removed. A file that cannot be
// examined is kept: most likely it has just been renamed.
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

// startTimeSlack is how much later than its file a writer may seem to have begun, because clocks
// are coarse.
const startTimeSlack = time.Second

// hasWriterEnded reports whether the process pid, which wrote a file at that time, has ended. If
// that is unknown, it reports false.
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

// processStat returns the state of a process and its start time in ticks since boot (proc_pid_stat(5), fields 3 and 22). ok is false if
// there is no such process.
func processStat(pid int) (state string, ticks int64, ok bool) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, false
	}
	// The name, in parentheses, may contain any character.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	const stateField, startField = 0, 19 // counted from the third field
	if len(fields) <= startField {
		return "", 0, false
	}
	ticks, err = strconv.ParseInt(fields[startField], 10, 64)
	return fields[stateField], ticks, err == nil
}
