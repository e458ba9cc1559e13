package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockstep/cmd/internal/places"
	"lockstep/edge/luxiclient"
	"lockstep/edge/reaper"
	"lockstep/persistence"
)

// Daemon is a lockstepd of the demo: a process whose directories are below root.
type Daemon struct {
	root    string
	Program string // path of lockstepd; "": beside this program
	Socket  string
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	log     *bytes.Buffer // read after done
}

// demoStopMax bounds an orderly stop of a daemon; then it is killed.
const demoStopMax = 10 * time.Second

// NewDaemon returns a daemon that is not started.
func NewDaemon(root string) *Daemon {
	return &Daemon{root: root, Socket: filepath.Join(root, "run", "socket", "ganeti-query")}
}

// Start starts the daemon and returns when it answers calls.
func (d *Daemon) Start(ctx context.Context) error {
	program := d.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		program = places.Daemon(filepath.Dir(self))
	}
	d.log = &bytes.Buffer{}
	d.cmd = exec.Command(program,
		"--data-dir", filepath.Join(d.root, "lib"),
		"--run-dir", filepath.Join(d.root, "run"),
		"--log-dir", filepath.Join(d.root, "log"),
		"--rapi-address", "", "--confd-address", "", "--mond-address", "")
	d.cmd.Stderr = d.log
	// Ctrl-C must not reach the daemon: the demonstration stops it in order.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start a daemon: %w: build it first, with `make build`", err)
	}
	d.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(d.cmd, d.done)
	for {
		client, err := luxiclient.Dial(ctx, d.Socket, luxiclient.Options{})
		if err == nil {
			return client.Close()
		}
		select {
		case <-d.done:
			return fmt.Errorf("the daemon has ended at once:\n%s", d.log)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// crash kills the daemon and starts it again, and returns when it answers calls.
func (d *Daemon) crash(ctx context.Context) error {
	if err := d.kill(); err != nil {
		return err
	}
	return d.Start(ctx)
}

// Stop ends a started daemon in order, or by force after demoStopMax. Running jobs continue. The error says that the daemon has ended
// with a failure.
func (d *Daemon) Stop() error {
	if d.done == nil {
		return nil
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-d.done:
	case <-time.After(demoStopMax):
		if err := d.kill(); err != nil {
			return err
		}
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the daemon has ended with status %d:\n%s", code, d.log)
	}
	return nil
}

// Clear kills the jobs of stopped daemons and removes everything below root. Job processes would
// otherwise continue without a place for their ends.
func Clear(root string, daemons ...*Daemon) error {
	for _, d := range daemons {
		if err := d.killJobs(); err != nil {
			return err
		}
	}
	return os.RemoveAll(root)
}

// jobProcesses bounds the searches of killJobs: a process may start while the daemon stops.
const jobProcesses = 100

// killJobs kills first the job processes of the demonstration, which start commands, then the commands.
func (d *Daemon) killJobs() error {
	runDir := filepath.Join(d.root, "run")
	for range jobProcesses {
		paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		killed := 0
		for _, path := range paths {
			line, _ := os.ReadFile(path) // it may be gone
			args := strings.Split(string(line), "\x00")
			if len(args) < 4 || filepath.Base(args[0]) != "lockstep-job" || args[3] != runDir {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		if killed == 0 {
			break
		}
	}
	locks, err := filepath.Glob(filepath.Join(persistence.LivelockDir(runDir), "*"))
	if err != nil {
		return err
	}
	for _, lock := range locks {
		if err := (reaper.Job{Livelock: lock, KillTimeout: time.Second, OnKill: func(int) {}}).Kill(); err != nil {
			return err
		}
	}
	return nil
}
