package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"lockstep/actors/luxi/wire"
)

// demoDaemon is a lockstepd with its directories below root.
type demoDaemon struct {
	root   string
	socket string
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended
	log    *bytes.Buffer // read after done
}

func startDemoDaemon(ctx context.Context, root string) (*demoDaemon, error) {
	d := &demoDaemon{root: root, socket: filepath.Join(root, "run", "socket", "ganeti-query")}
	return d, d.start(ctx)
}

// start returns when the daemon takes calls.
func (d *demoDaemon) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d.log = &bytes.Buffer{}
	d.cmd = exec.Command(filepath.Join(filepath.Dir(self), "lockstepd"), "--data-dir", filepath.Join(d.root, "lib"),
		"--run-dir", filepath.Join(d.root, "run"), "--log-dir", filepath.Join(d.root, "log"), "--rapi-address", "")
	d.cmd.Stderr = d.log
	// Ctrl-C is for us: we stop the daemon in order.
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
		client, err := wire.Dial(ctx, d.socket, wire.Options{})
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

// crash ends the daemon as a crash does, and starts it again.
func (d *demoDaemon) crash(ctx context.Context) error {
	if err := d.kill(); err != nil {
		return err
	}
	return d.start(ctx)
}

// stop ends the daemon in order. Where the demonstration was interrupted, what
// runs of its jobs ends by itself within seconds.
func (d *demoDaemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-d.done
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the daemon has ended with status %d:\n%s", code, d.log)
	}
	return nil
}
