package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/luxiclient"
	"lockstep/sim/longtest"
)

// patience bounds every wait of these tests. It is much longer than any expected wait.
const patience = 30 * time.Second

var programs string // directory of the built programs

func TestMain(m *testing.M) {
	if spec, isChild := os.LookupEnv(childEnv); isChild {
		childMain(spec)
	}
	if flag.Parse(); testing.Short() {
		os.Exit(m.Run()) // without programs, because longtest skips the tests of real daemons
	}
	dir, err := os.MkdirTemp("", "lockstep-programs")
	if err != nil {
		panic(err)
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "lockstep/cmd/lockstepd", "lockstep/cmd/lockstep-job", "lockstep/cmd/lockstep-guard")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		os.Exit(1)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// daemon is a real lockstepd with its own directories.
type daemon struct {
	t    testing.TB
	root string
	env  []string // of the daemon, beside that of the test
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

func newDaemon(t testing.TB) *daemon {
	longtest.Skip(t)
	// The path of a socket must be short, and so must the path of its directory.
	root, err := os.MkdirTemp("", "ls")
	require.NoError(t, err)
	d := &daemon{t: t, root: root}
	t.Cleanup(func() {
		d.kill()
		d.endJobs()
		_ = os.RemoveAll(root)
		if t.Failed() {
			t.Logf("log of the daemon:\n%s", d.logged())
		}
	})
	return d
}

func (d *daemon) path(names ...string) string {
	return filepath.Join(append([]string{d.root}, names...)...)
}

func (d *daemon) args(more ...string) []string {
	return append([]string{"--data-dir", d.path("lib"), "--run-dir", d.path("run"), "--log-dir", d.path("log"), "--rapi-address", "", "--confd-address", "", "--mond-address", ""}, more...)
}

// start returns when the daemon takes jobs.
func (d *daemon) start(more ...string) {
	d.t.Helper()
	d.awaitReady(d.launch(more...))
}

// launch starts the daemon. ready is closed when the daemon takes jobs.
func (d *daemon) launch(more ...string) (ready <-chan struct{}) {
	d.t.Helper()
	return d.launchProgram(filepath.Join(programs, "lockstepd"), d.args(more...)...)
}

// launchProgram starts the daemon, or a program that starts the daemon.
func (d *daemon) launchProgram(name string, args ...string) (ready <-chan struct{}) {
	d.t.Helper()
	return d.launchCommand(exec.Command(name, args...))
}

// launchCommand starts the daemon by a command.
func (d *daemon) launchCommand(cmd *exec.Cmd) (ready <-chan struct{}) {
	d.t.Helper()
	d.cmd = cmd
	if len(d.env) > 0 {
		d.cmd.Env = append(d.cmd.Environ(), d.env...)
	}
	stderr, err := d.cmd.StderrPipe()
	require.NoError(d.t, err)
	require.NoError(d.t, d.cmd.Start())
	takes, done := make(chan struct{}), make(chan struct{})
	d.done = done
	go func(cmd *exec.Cmd) {
		lines, told := bufio.NewScanner(stderr), false
		for lines.Scan() {
			d.mu.Lock()
			d.log.WriteString(lines.Text() + "\n")
			d.mu.Unlock()
			if !told && strings.Contains(lines.Text(), "lockstepd started") {
				told = true
				close(takes)
			}
		}
		_ = cmd.Wait()
		close(done)
	}(d.cmd)
	return takes
}

func (d *daemon) awaitReady(ready <-chan struct{}) {
	d.t.Helper()
	select {
	case <-ready:
	case <-d.done:
		d.t.Fatalf("the daemon has ended:\n%s", d.logged())
	case <-time.After(patience):
		d.t.Fatalf("the daemon does not take jobs:\n%s", d.logged())
	}
}

func (d *daemon) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// kill ends the daemon as a crash does.
func (d *daemon) kill() {
	if d.cmd != nil {
		_ = d.cmd.Process.Kill()
		<-d.done
		d.cmd = nil
	}
}

// stop ends the daemon in order and returns its exit status.
func (d *daemon) stop() int {
	require.NoError(d.t, d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-d.done:
	case <-time.After(patience):
		d.t.Fatal("the daemon does not stop")
	}
	code := d.cmd.ProcessState.ExitCode()
	d.cmd = nil
	return code
}

// endJobs ends the job processes and commands that a failed test has left: they outlive the
// daemon.
func (d *daemon) endJobs() {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range processes {
		line, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() && strings.Contains(string(line), d.root+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// client is a connection that makes calls.
type client struct {
	t testing.TB
	*luxiclient.Client
}

func (d *daemon) dial() *client {
	d.t.Helper()
	c, err := luxiclient.Dial(context.Background(), d.path("run", "socket", "ganeti-query"), luxiclient.Options{AnswerTimeout: patience})
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = c.Close() })
	return &client{d.t, c}
}

func (c *client) call(method string, result any, args ...any) {
	c.t.Helper()
	require.NoError(c.t, c.Call(context.Background(), method, args, result))
}

type op map[string]any

func command(argv ...string) op { return op{"OP_ID": "OP_RUN_COMMAND", "argv": argv} }

func (o op) with(key string, value any) op { o[key] = value; return o }

func (c *client) submit(ops ...op) int64 {
	c.t.Helper()
	var id int64
	c.call("SubmitJob", &id, ops)
	return id
}

// queriedJob is the data of a job in an answer to a client.
type queriedJob struct {
	Status   string
	Results  []json.RawMessage
	Statuses []string
	Log      [][][]json.RawMessage
}

func (c *client) query(id int64) queriedJob {
	c.t.Helper()
	var rows [][]json.RawMessage
	c.call("QueryJobs", &rows, []int64{id}, []string{"status", "opresult", "opstatus", "oplog"})
	var j queriedJob
	for i, into := range []any{&j.Status, &j.Results, &j.Statuses, &j.Log} {
		require.NoError(c.t, json.Unmarshal(rows[0][i], into))
	}
	return j
}

// await waits as clients do, until the job is final.
func (c *client) await(id int64) queriedJob {
	c.t.Helper()
	for status := "nothing yet"; ; {
		var change [2]json.RawMessage
		c.call("WaitForJobChange", &change, id, []string{"status"}, []string{status}, nil, 20)
		var values []string
		require.NoError(c.t, json.Unmarshal(change[0], &values))
		if status = values[0]; status == "success" || status == "error" || status == "canceled" {
			return c.query(id)
		}
	}
}

func (j queriedJob) lines() []string { return j.linesOf("") }

// linesOf are the texts of the log entries of a type; "" stands for all types.
func (j queriedJob) linesOf(want string) []string {
	var lines []string
	for _, log := range j.Log {
		for _, entry := range log {
			var kind, line string
			_ = json.Unmarshal(entry[2], &kind)
			if (want == "" || want == kind) && json.Unmarshal(entry[3], &line) == nil {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func signalTERM(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }
