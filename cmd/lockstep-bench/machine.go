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

// machine is where something was measured.
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
	// Pending is how long it took to write what others had left to the disk to do before
	// the run, the removal of files by an earlier run among it, in seconds.
	Pending float64 `json:"pending_seconds"`
}

// describe looks at the machine, and the file system that dir is on.
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
		return m, fmt.Errorf("%s: not below any mount that /proc/self/mountinfo names", dir)
	}
	m.FileSystem, m.Mount, m.Journal = at.kind, fmt.Sprintf("%s, %s", at.source, at.options), journal(at)
	return m, nil
}

// flush has everything written that the file system of dir still has to write, and says
// how many seconds that took.
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

// journal is how an ext file system keeps its journal; others have no choice of it.
func journal(m mount) string {
	switch {
	case m.kind == "tmpfs" || m.kind == "ramfs":
		return "none: this is memory, and syncs cost nothing here"
	case !strings.HasPrefix(m.kind, "ext"):
		return "the file system's own way"
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
		return "there is one"
	}
	var said []string
	for _, option := range strings.Fields(string(options)) {
		if strings.HasPrefix(option, "data=") || strings.HasPrefix(option, "commit=") || strings.Contains(option, "barrier") {
			said = append(said, option)
		}
	}
	return strings.Join(said, ",")
}

// deviceName is what the kernel calls a device of that major:minor, or "".
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
		fmt.Sprintf("deletions:    none by this run before its end; what was left to write before took %.2f s\n", m.Pending)
}
