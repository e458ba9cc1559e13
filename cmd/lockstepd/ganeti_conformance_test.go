package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/accounts"
	"lockstep/persistence"
)

// ganetisDaemon is the path of a daemon of Ganeti: in the packages that `make conformance` extracts, or installed. The test is
// skipped if neither can be executed.
func ganetisDaemon(t *testing.T, name string) string {
	packages := os.Getenv("GANETI_PACKAGES")
	if packages == "" {
		t.Skip("NOT RUN: GANETI_PACKAGES is not set; `make conformance` sets it")
	}
	if _, err := accounts.Resolve(accounts.Ganeti); err != nil {
		t.Skipf("NOT RUN: Ganeti's %s does not start without the accounts that its package makes: %v", name, err)
	}
	for _, path := range []string{filepath.Join(packages, "usr/lib/ganeti/3.0/usr/sbin", name), filepath.Join("/usr/sbin", name)} {
		if exec.Command(path, "--version").Run() == nil {
			return path
		}
	}
	t.Skipf("NOT RUN: Ganeti's %s cannot be executed; it is in Debian's package ganeti-haskell-3.0", name)
	return ""
}

// startStock starts one of Ganeti's daemons on the directories of the bench, and waits until its log has a text and its socket answers.
func (b *faceBench) startStock(path, text, socket string) (stop func()) {
	b.t.Helper()
	cmd := exec.Command(path, "-f", "--no-user-checks", "--no-voting", "--yes-do-it")
	cmd.Env = append(b.env, "LC_ALL=C.UTF-8")
	require.NoError(b.t, cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	b.t.Cleanup(stop)
	require.Eventually(b.t, func() bool {
		if !strings.Contains(b.logs(), text) {
			return false
		}
		c, err := net.Dial("unix", b.path("run/ganeti/socket", socket))
		return err == nil && c.Close() == nil
	}, time.Minute, 20*time.Millisecond, text)
	return stop
}

// logs is the content of the logs of all daemons.
func (b *faceBench) logs() (all string) {
	b.t.Helper()
	paths, err := filepath.Glob(b.path("var/log/ganeti/*-daemon.log"))
	require.NoError(b.t, err)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(b.t, err)
		all += string(content)
	}
	return all
}

// TestConformanceOfJobFiles: the strict reader of Ganeti's luxid loads every job file that lockstep's own opcodes leave in the queue of
// Ganeti mode: with output of commands, with results and errors, canceled and killed ones. It answers what lockstep has answered.
func TestConformanceOfJobFiles(t *testing.T) {
	stockWconfd, stockLuxid := ganetisDaemon(t, wconfdName), ganetisDaemon(t, luxidName)
	b := newFaceBench(t)
	require.NoError(t, os.Symlink("../run", b.path("var/run"))) // the run directory of Debian's daemons
	b.write("var/lib/ganeti/opcodes.d/greet.yaml", `{name: OP_SITE_GREET, params: [{name: whom, type: String}], command: [echo, "hello ${whom}"]}`)
	b.start(wconfdName)
	b.start(luxidName)
	c := b.dial()
	ended := []int64{
		c.submit(command("sh", "-c", `printf 'out\n\303\244 \377\nno end'; echo err >&2`), command("true")),
		c.submit(command("sh", "-c", "exit 3"), command("true")),
		c.submit(op{"OP_ID": "OP_SITE_GREET", "whom": "you"}),
		c.submit(op{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"env"}, "env": op{"A": "b"}, "stdin": "in", "timeout": 60, "comment": "c", "reason": []any{[]any{"gnt:user", "why", 1}}}),
	}
	for _, id := range ended {
		c.await(id)
	}
	killed := c.submit(command("sleep", "1000"), command("true"))
	c.awaitOpStatus(killed, 0, "running")
	var answer []any
	c.call("CancelJob", &answer, killed, true)
	c.await(killed)
	require.NoError(t, b.filterAll(c))
	canceled, queued := c.submit(command("true")), c.submit(command("true"))
	c.call("CancelJob", &answer, canceled, false)
	all := append(ended, killed, canceled, queued)
	fields := []string{"id", "status", "ops", "opstatus", "opresult", "oplog", "received_ts", "start_ts", "end_ts", "opstart", "opexec", "opend"}
	rows := func() (rows []json.RawMessage) {
		b.dial().call("QueryJobs", &rows, all, fields)
		return rows
	}
	before := rows()
	b.end(luxidName, syscall.SIGTERM)
	b.end(wconfdName, syscall.SIGTERM)

	stopWconfd := b.startStock(stockWconfd, "ganeti-wconfd daemon startup", persistence.WconfSocket)
	stopLuxid := b.startStock(stockLuxid, "Starting time-based job queue watcher", persistence.LuxiSocket)
	after := rows()
	require.NotRegexp(t, `(?i)quarantin|(failed|cannot|unable) to (load|read|parse)`, b.logs())
	require.Len(t, after, len(all))
	for i := range all {
		require.JSONEq(t, string(before[i]), string(after[i]), "job %d", all[i])
	}
	stopLuxid()
	stopWconfd()
}

// filterAll keeps the jobs that come from being started, also by Ganeti's daemon.
func (b *faceBench) filterAll(c *client) error {
	return c.Call(context.Background(), "ReplaceFilter", []any{nil, 0, []any{[]any{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{}}, nil)
}
