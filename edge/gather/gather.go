// Package gather reads what the collectors of MonD report about this node (mond.md 4 and 7): files of the kernel, the output of
// lvs and of Xen's programs, the job processes, and what the daemon's own process uses.
//
// It implements the port Sources of package actors/monitor. It owns one goroutine for each reading in progress, at most one for
// each collector, and nothing else. A reading that hangs delays no other one. Programs that it starts are ended after a time.
package gather

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"

	"lockstep/actors/monitor"
	core "lockstep/core/monitor"
	"lockstep/core/paths"
)

const (
	fileMax   = 4 << 20 // bytes of a file
	outputMax = 16 << 20
	// programTimeout ends a program, so that a hanging one does not stay for ever.
	programTimeout = 2 * time.Minute
)

// errAbsent: this node has nothing to read.
var errAbsent = errors.New("there is nothing to read")

// Config says where Sources reads: directories, and functions for what the daemon knows itself. Functions may be nil: their values stay
// 0.
type Config struct {
	System  *actor.ActorSystem
	Proc    string // "/proc"
	DataDir string // "": the node has none
	Reasons string // directory of the files about the reasons of the states of instances; "": there is none
	// Processes returns the job processes of this node.
	Processes func() []core.Process
	Restarts  func() int64               // of actors since the start
	Log       func() (term, last uint64) // of the consensus log: its term, and the index of the last committed entry
}

// Sources is the monitor.Sources of a daemon: it reads files of the kernel and outputs of programs for MonD's collectors.
type Sources struct {
	config Config

	mu   sync.Mutex
	busy map[string]*request // by collector: the request to answer; a reading is in progress
}

// request is the latest request for the data of a collector. It is answered with a reading that began after it came.
type request struct {
	number uint64
	to     *actor.PID
	again  bool // it came during the reading
}

// New returns a Sources that has read nothing.
func New(c Config) *Sources { return &Sources{config: c, busy: map[string]*request{}} }

// Gather is part of monitor.Sources. While the collector is being read, the reading begins again after it for the latest request.
func (s *Sources) Gather(number uint64, collector string, to *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[collector] != nil {
		s.busy[collector] = &request{number, to, true}
		return
	}
	s.busy[collector] = &request{number, to, false}
	go s.gather(collector)
}

// gather reads a collector's data again and again until the latest request has been answered.
func (s *Sources) gather(collector string) {
	for {
		reading, err := s.read(collector)
		reading.Taken = time.Now()
		s.mu.Lock()
		r := s.busy[collector]
		if r.again {
			r.again = false
			s.mu.Unlock()
			continue // the request is younger than this reading, whose requester may be gone
		}
		delete(s.busy, collector)
		s.mu.Unlock()
		absent := errors.Is(err, errAbsent)
		if absent {
			err = nil
		}
		s.config.System.Root.Send(r.to, &monitor.Gathered{Number: r.number, Collector: collector, Absent: absent, Err: err, Reading: reading})
		return
	}
}

func (s *Sources) read(collector string) (r core.Reading, err error) {
	switch collector {
	case core.CPULoad:
		r.Text, err = s.file("stat")
	case core.DiskStats:
		r.Text, err = s.file("diskstats")
	case core.DRBD:
		r.Text, err = s.file("drbd")
	case core.LV:
		r.Text, err = output("lvs", "--noheadings", "--units", "B", "--separator", ";", "-o", core.LVColumns)
	case core.XenCPULoad:
		r.Text, err = output("xentop", "-f", "-b", "-i", "1")
	case core.InstStatus:
		r.Xen, err = s.xen()
	case core.QueueName:
		r.Disk = s.disk()
	case core.Processes:
		if s.config.Processes != nil {
			r.Processes = s.config.Processes()
		}
	case core.Lockstepd:
		r.Usage, err = s.usage()
	case core.ConfigName:
		r.Files, err = s.ssconf()
	case core.Replication:
		if s.config.Log != nil {
			r.Term, r.Committed = s.config.Log()
		}
	}
	return r, err
}

// file reads a file of the kernel. A file that does not exist is no failure.
func (s *Sources) file(name string) ([]byte, error) {
	text, err := readFile(filepath.Join(s.config.Proc, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errAbsent
	}
	return text, err
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err == nil && len(text) > fileMax {
		err = fmt.Errorf("%s is longer than %d bytes", path, fileMax)
	}
	return text, err
}

// limitedBuffer keeps what is written to it, and fails when that is too much. It does not embed the buffer, whose ReadFrom has no
// bound.
type limitedBuffer struct {
	kept bytes.Buffer
	max  int
}

func (b *limitedBuffer) Write(data []byte) (int, error) {
	if b.kept.Len()+len(data) > b.max {
		return 0, fmt.Errorf("the output is longer than %d bytes", b.max)
	}
	return b.kept.Write(data)
}

// output runs a program and returns what it prints. The error is errAbsent for a program that is not installed, which is no failure.
func output(program string, args ...string) ([]byte, error) {
	path, err := lookUp(program)
	if err != nil {
		return nil, errAbsent
	}
	ctx, cancel := context.WithTimeout(context.Background(), programTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, failure := &limitedBuffer{max: outputMax}, &limitedBuffer{max: 4096}
	cmd.Stdout, cmd.Stderr = out, failure
	if err := cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(failure.kept.String()), "\n")
		return nil, fmt.Errorf("%s: %w: %s", program, err, line)
	}
	return out.kept.Bytes(), nil
}

// lookUp finds a program of the administrator, also if the daemon's PATH lacks its directories.
func lookUp(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err = exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// xen asks for the domains with the program that is installed: xl, or its predecessor xm. The error is errAbsent without either.
func (s *Sources) xen() (core.XenReading, error) {
	program := "xl"
	if _, err := lookUp(program); err != nil {
		program = "xm"
	}
	list, err := output(program, "list")
	if err != nil {
		return core.XenReading{}, err
	}
	r := core.XenReading{List: list, Reasons: map[string][]byte{}}
	r.Uptimes, _ = output(program, "uptime") // it is shown as unknown without
	files, _ := os.ReadDir(s.config.Reasons)
	for _, f := range files {
		if text, err := readFile(filepath.Join(s.config.Reasons, f.Name())); err == nil {
			r.Reasons[f.Name()] = text
		}
	}
	return r, nil
}

func (s *Sources) disk() core.DiskState {
	if s.config.DataDir == "" {
		return core.DiskState{}
	}
	dir := filepath.Join(s.config.DataDir, paths.QueueDir)
	d := core.DiskState{Unwritable: unix.Access(dir, unix.W_OK) != nil}
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) == nil && stat.Blocks > 0 {
		d.Free, d.Known = float64(stat.Bavail)/float64(stat.Blocks), true
	}
	return d
}

func (s *Sources) usage() (core.Usage, error) {
	u := core.Usage{Goroutines: runtime.NumGoroutine()}
	if s.config.Restarts != nil {
		u.Restarts = s.config.Restarts()
	}
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return u, fmt.Errorf("read the use of the processor: %w", err)
	}
	u.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	memory, err := residentMemory(s.config.Proc, "self")
	u.Memory = memory
	return u, err
}

// ssconf reads the ssconf files of this node, by name; none without a data directory.
func (s *Sources) ssconf() (map[string][]byte, error) {
	files := map[string][]byte{}
	if s.config.DataDir == "" {
		return files, nil
	}
	names, err := filepath.Glob(filepath.Join(s.config.DataDir, "ssconf_*"))
	if err != nil {
		return nil, fmt.Errorf("list the ssconf files of the data directory: %w", err)
	}
	for _, path := range names {
		text, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[filepath.Base(path)] = text
	}
	return files, nil
}
