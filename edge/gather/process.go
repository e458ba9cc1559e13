package gather

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	core "lockstep/core/monitor"
)

// clockTicks is the number of ticks in a second in the files of processes.
const clockTicks = 100

// residentMemory returns the bytes of memory that a process uses, from /proc.
func residentMemory(proc, pid string) (int64, error) {
	text, err := readFile(filepath.Join(proc, pid, "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("the memory of process %s has %d columns", pid, len(fields))
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %s: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// Describe adds what the kernel knows of a job process. booted is when the machine has started. A process that has ended
// meanwhile keeps its zeros.
func Describe(proc string, p core.Process, booted time.Time) core.Process {
	pid := strconv.Itoa(p.PID)
	p.RSS, _ = residentMemory(proc, pid)
	text, err := readFile(filepath.Join(proc, pid, "stat"))
	if err != nil {
		return p
	}
	// The name may have spaces and ends at the last parenthesis; then come the columns from the third on.
	end := strings.LastIndex(string(text), ")")
	fields := strings.Fields(string(text[end+1:]))
	const utime, stime, start = 14 - 3, 15 - 3, 22 - 3
	if end < 0 || len(fields) <= start {
		return p
	}
	ticks := func(i int) float64 {
		n, _ := strconv.ParseFloat(fields[i], 64)
		return n / clockTicks
	}
	p.CPU = ticks(utime) + ticks(stime)
	p.Since = float64(booted.UnixMilli())/1e3 + ticks(start)
	return p
}

// BootTime returns when the machine has started, with a precision of a second; the zero time if /proc does not say it.
func BootTime(proc string) time.Time {
	text, err := readFile(filepath.Join(proc, "stat"))
	if err != nil {
		return time.Time{}
	}
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, "btime "); is {
			seconds, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Unix(seconds, 0)
		}
	}
	return time.Time{}
}
