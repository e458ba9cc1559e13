package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/edge/jobprocess"
	"lockstep/edge/luxiclient"
	"lockstep/persistence"
)

// daemon is a real lockstepd with its own directories, without remote API.
type daemon struct {
	bench *bench
	root  string
	// name and address are those of a node of a cluster; "": it belongs to none.
	name, address string
	more          []string  // further arguments
	cmd           *exec.Cmd // nil: not running
	done          chan struct{}
}

// startDaemon starts a daemon and returns, with a connection to it, when it accepts jobs. With paused, jobs are queued and do not run.
func (b *bench) startDaemon(paused bool, more ...string) (*daemon, *client, error) {
	d := &daemon{bench: b, root: b.newDir(), more: more}
	if err := os.Mkdir(d.root, 0o750); err != nil {
		return nil, nil, err
	}
	b.daemons = append(b.daemons, d)
	if err := d.start(); err != nil {
		return nil, nil, err
	}
	c, err := d.dial(persistence.LuxiSocket)
	if err != nil {
		return nil, nil, err
	}
	if paused {
		err = c.call(nil, "ReplaceFilter", nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	}
	return d, c, err
}

func (d *daemon) dataDir() string { return filepath.Join(d.root, "lib") }
func (d *daemon) runDir() string  { return filepath.Join(d.root, "run") }

// bareRunDir is the run directory of processes of the bare loop.
func (d *daemon) bareRunDir() string { return filepath.Join(d.root, "bare") }

func (d *daemon) start() error {
	log, err := os.OpenFile(filepath.Join(d.root, "lockstepd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	args := append([]string{"--data-dir", d.dataDir(), "--run-dir", d.runDir(),
		"--log-dir", filepath.Join(d.root, "log"), "--rapi-address", "", "--confd-address", "", "--mond-address", ""}, d.more...)
	cmd := exec.Command(d.bench.program("lockstepd"), args...)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	ready, done := make(chan struct{}), make(chan struct{})
	d.cmd, d.done = cmd, done
	go func() {
		defer log.Close() // the daemon waits if nobody reads what it logs
		copied := io.TeeReader(stderr, log)
		for lines := bufio.NewReader(copied); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			if strings.Contains(line, "lockstepd started") {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, copied)
		_ = cmd.Wait() // the log has the error
		close(done)
	}()
	select {
	case <-ready:
		return nil
	case <-done:
	case <-time.After(waitMax):
	case <-d.bench.ctx.Done():
	}
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("the daemon does not accept jobs; its log:\n%s", text)
}

// kill ends the daemon with SIGKILL and waits for its end. A daemon that does not run is no error.
func (d *daemon) kill() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill()
	<-d.done
	d.cmd = nil
}

// endJobs kills the job processes of an interrupted run: they outlive the daemon, and would retry
// writes to a removed directory.
func (d *daemon) endJobs() {
	log := logrus.New()
	log.SetOutput(io.Discard)
	for _, runDir := range []string{d.runDir(), d.bareRunDir()} {
		jobprocess.New(jobprocess.Config{Log: log, DataDir: d.dataDir(), RunDir: runDir}).KillAll()
	}
}

// stop stops the daemon in order and waits for its end, at most for waitMax.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.done:
		d.cmd = nil
		return nil
	case <-time.After(waitMax):
		return errors.New("the daemon does not stop")
	}
}

func (d *daemon) dial(socket string) (*client, error) {
	options := luxiclient.Options{AnswerTimeout: waitMax, MaxFrame: 256 << 20}
	c, err := luxiclient.Dial(d.bench.ctx, persistence.SocketPath(d.runDir(), socket), options)
	if err != nil {
		return nil, err
	}
	return &client{ctx: d.bench.ctx, luxi: c}, nil
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// liveHeap is the daemon's heap after a collection, in bytes.
func (d *daemon) liveHeap() (float64, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", persistence.SocketPath(d.runDir(), persistence.AdminSocket))
	}}
	request, err := http.NewRequestWithContext(d.bench.ctx, http.MethodGet, "http://lockstepd/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	found := heapAlloc.FindSubmatch(text)
	if answer.StatusCode != http.StatusOK || found == nil {
		return 0, fmt.Errorf("the daemon's heap profile has no HeapAlloc: %s", answer.Status)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
