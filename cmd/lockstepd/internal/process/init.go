package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// RunAsInit is lockstepd as process 1 of a container. Every orphan of the container becomes a
// child of process 1, and stays a zombie until process 1 waits for it. So the daemon runs as a
// child of this process, which only waits for all children and forwards signals. In the daemon
// such a wait could take the exit status of a child that other code waits for. RunAsInit
// returns the exit status of the daemon, with which all processes of the container end.
func RunAsInit() (status int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	daemon, err := os.StartProcess(program, os.Args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		// Signals of a terminal reach this process alone, which forwards each once.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start the daemon as a child of process 1: %w", err)
	}
	pid := daemon.Pid
	go func() {
		for s := range signals {
			_ = syscall.Kill(pid, s.(syscall.Signal)) // the pid stays valid until the process is waited for
		}
	}()
	return reapUntil(pid)
}

// reapUntil waits for all children until the process pid has ended, and returns its exit status.
func reapUntil(pid int) (status int, err error) {
	for {
		var how syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &how, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR) || err == nil && ended != pid:
		case err != nil:
			return 0, fmt.Errorf("wait for the daemon: %w", err)
		case how.Signaled():
			return 128 + int(how.Signal()), nil // as a shell reports it
		default:
			return how.ExitStatus(), nil
		}
	}
}
