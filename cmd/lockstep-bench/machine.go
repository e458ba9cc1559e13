package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine describes the machine of a run.
type machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	Load       string `json:"load"` // averages over 1, 5 and 15 minutes, before it began
	FileSystem string `json:"file_system"`
	Mount      string `json:"mount"`
	Journal    string `json:"journal"`
	FreeGB     int64  `json:"free_gb"`
	// Pending is the time, in seconds, of flushing earlier writes and removals to the disk before
	// the run.
	Pending float64 `json:"pending_seconds"`
}

// describe returns the machine, its load, and the file system of dir.
func describe(dir string) (machine, error) {
	m := machine{CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(), Kernel: "unknown"}
	if content, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(content)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if content, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(content))
	}
	if content, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(content))[:3], " ")
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return m, fmt.Errorf("%s: %w", dir, err)
	}
	m.FreeGB = int64(stat.Bavail) * stat.Bsize >> 30
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return m, err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return m, err
	}
	at, found := mountOf(string(mounts), resolved)
	if !found {
		return m, fmt.Errorf("%s: not below any mount of /proc/self/mountinfo", dir)
	}
	m.FileSystem, m.Mount, m.Journal = at.kind, fmt.Sprintf("%s, %s", at.source, at.options), journal(at)
	return m, nil
}

// flush flushes the file system of dir and returns the time in seconds.
func flush(dir string) (seconds float64, err error) {
	file, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	began := time.Now()
	err = unix.Syncfs(int(file.Fd()))
	return time.Since(began).Seconds(), err
}

// journal describes the journal of an ext file system, or says for another kind whether it has one.
func journal(m mount) string {
	switch {
	case m.kind == "tmpfs" || m.kind == "ramfs":
		return "none: this is memory, and syncs are free"
	case !strings.HasPrefix(m.kind, "ext"):
		return "file system's own"
	}
	name := deviceName(m.device)
	if name == "" {
		return "unknown"
	}
	if journals, _ := filepath.Glob("/proc/fs/jbd2/" + name + "-*"); len(journals) == 0 {
		return "none"
	}
	options, err := os.ReadFile(filepath.Join("/proc/fs", m.kind, name, "options"))
	if err != nil {
		return "yes"
	}
	var said []string
	for _, option := range strings.Fields(string(options)) {
		if strings.HasPrefix(option, "data=") || strings.HasPrefix(option, "commit=") || strings.Contains(option, "barrier") {
			said = append(said, option)
		}
	}
	return strings.Join(said, ",")
}

// deviceName is the kernel's name of a device with the given major:minor, or "".
func deviceName(device string) string {
	target, err := os.Readlink("/sys/dev/block/" + device)
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

func (m machine) String() string {
	return "CPU:          " + m.CPU + ", " + strconv.Itoa(m.Cores) + " cores, load before " + m.Load + "\n" +
		"kernel, Go:   " + m.Kernel + ", " + m.Go + "\n" +
		"file system:  " + m.FileSystem + " (" + m.Mount + "), " + strconv.FormatInt(m.FreeGB, 10) + " GB free\n" +
		"journal:      " + m.Journal + "\n" +
		fmt.Sprintf("deletions:    none by this run before its end; flushing earlier writes took %.2f s\n", m.Pending)
}
