package faces

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/lockstepd/internal/process"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/persistence"
)

// daemonMark is the variable of the environment that tells the process of the daemon from the one that starts it.
const daemonMark = "LOCKSTEP_DAEMON_PROCESS"

// statusDescriptor is the daemon's end of the pipe to the process that starts it.
const statusDescriptor = 3

// startedLine is sent through the pipe when clients can connect. Any other line is why the start has failed.
const startedLine = "started"

// facesUmask is that of Ganeti's daemons.
const facesUmask = 0o077

func version() string { return buildinfo.Read().Short() }

func isDaemonProcess() bool { return os.Getenv(daemonMark) != "" }

// programPath is the path under which this process was started. Its last part becomes the name of the new process, by which
// Ganeti's tools find it: /proc/self/exe would lead to another name.
func programPath() (string, error) {
	if filepath.IsAbs(os.Args[0]) {
		return os.Args[0], nil
	}
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// startDaemonProcess starts the daemon in a session of its own, and returns when clients can connect to it, or with the reason
// why it has ended.
func startDaemonProcess(f face) error {
	program, err := programPath()
	if err != nil {
		return err
	}
	status, daemonsEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer status.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	process, err := os.StartProcess(program, append([]string{program}, os.Args[1:]...), &os.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), daemonMark+"=1"),
		Files: []*os.File{null, null, null, daemonsEnd},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	_ = daemonsEnd.Close()
	if err != nil {
		return err
	}
	_ = process.Release()
	lines := bufio.NewScanner(status)
	var failure []string
	for lines.Scan() {
		if lines.Text() == startedLine {
			return nil
		}
		failure = append(failure, lines.Text())
	}
	if len(failure) == 0 {
		return fmt.Errorf("the daemon has ended; its log %s may say why", f.logFile)
	}
	return errors.New(strings.Join(failure, "\n"))
}

// runDaemon is the daemon's own process: its standard error is the log file, which SIGHUP opens again. It tells the process that has
// started it when clients can connect, or why it ends.
func (f face) runDaemon(c settings.Config, o options) error {
	_ = os.Unsetenv(daemonMark) // not for job processes
	unix.CloseOnExec(statusDescriptor)
	status := os.NewFile(statusDescriptor, "status")
	syscall.Umask(facesUmask)
	err := f.makeDirs(c)
	if err == nil {
		err = f.openLog(c)
	}
	if err != nil {
		fmt.Fprintln(status, err)
		return err
	}
	var told sync.Once
	tell := func(line any) {
		told.Do(func() {
			fmt.Fprintln(status, line)
			_ = status.Close()
		})
	}
	err = f.runLocked(c, o, func() { _ = f.openLog(c) }, func() { tell(startedLine) })
	if err != nil {
		tell(err)
	}
	return err
}

// makeDirs makes the directories that are missing. ensure-dirs of Ganeti makes the same ones.
func (f face) makeDirs(c settings.Config) error {
	if !f.onMaster {
		return nil // its user may not make them
	}
	if err := persistence.MakeDirs(c.DataDir, c.RunDir, c.LogDir, c.Owners); err != nil {
		return err
	}
	return persistence.MakeSocketDir(c.RunDir, persistence.SocketDir(c.RunDir), c.Owners)
}

// openLog makes the log file standard output and standard error. A second call opens a file of that name again.
func (f face) openLog(c settings.Config) error {
	file, err := persistence.OpenLog(filepath.Join(c.LogDir, f.logFile), c.Owners)
	if err != nil {
		return err
	}
	defer file.Close()
	return errors.Join(unix.Dup3(int(file.Fd()), 1, 0), unix.Dup3(int(file.Fd()), 2, 0))
}

// runForeground runs the daemon in this process.
func (f face) runForeground(c settings.Config, o options) error {
	syscall.Umask(facesUmask)
	if err := f.makeDirs(c); err != nil {
		return err
	}
	return f.runLocked(c, o, func() {}, func() {})
}

// runLocked runs the daemon with its pid file. reopen is called for each SIGHUP, which has no other effect.
func (f face) runLocked(c settings.Config, o options, reopen, ready func()) error {
	stop, reload := process.Signals()
	go func() {
		for range reload {
			reopen()
		}
	}()
	pid, err := persistence.CreatePIDFile(persistence.PIDFilePath(c.RunDir, f.name), c.Owners)
	if err != nil {
		return err
	}
	log := o.newLog(c)
	log.WithField("pid", os.Getpid()).Info(f.name + " starts")
	err = f.run(stop, c, o, ready)
	if err != nil {
		log.WithField("err", err).Error(f.name + " ends")
	} else {
		log.Info(f.name + " stopped")
	}
	return errors.Join(err, pid.Release())
}

// attachSocket is the socket at which ganeti-wconfd waits for ganeti-luxid.
const attachSocket = "lockstep-luxid"

func attachOwner(c settings.Config) ownership.Attributes { return c.Owners.Of(ownership.AdminSocket) }

// doneOf returns a context that ends with ctx or when done is closed.
func doneOf(ctx context.Context, done <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
