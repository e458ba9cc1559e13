package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
	"lockstep/edge/luxiclient"
	"lockstep/persistence"
)

// Names under which lockstepd takes the place of a daemon of Ganeti.
const (
	luxidName  = "ganeti-luxid"
	wconfdName = "ganeti-wconfd"
	rapiName   = "ganeti-rapi"
	confdName  = "ganeti-confd"
	mondName   = "ganeti-mond"
)

// faceLogs are their log files.
var faceLogs = map[string]string{
	luxidName:  "luxi-daemon.log",
	wconfdName: "wconf-daemon.log",
	rapiName:   "rapi-daemon.log",
	confdName:  "conf-daemon.log",
	mondName:   "monitoring-daemon.log",
}

// Exit codes of Ganeti's daemons.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitNotMaster = 11
)

// faceBench has the daemons under Ganeti's names on directories below a root, with the user of the test in the place of
// Ganeti's accounts and testdata/ganeti in that of Ganeti's job process.
type faceBench struct {
	t    *testing.T
	root string
	env  []string
}

func newFaceBench(t *testing.T) *faceBench {
	d := newDaemon(t)
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("NOT RUN: /usr/bin/python3 is missing, with which Ganeti's job process runs")
	}
	b := &faceBench{t: t, root: d.root}
	ganetiData(t, b.path("var/lib/ganeti"))
	b.write("var/lib/ganeti/ssconf_master_node", "node1\n")
	modules, err := filepath.Abs("testdata/ganeti")
	require.NoError(t, err)
	b.write("etc/ganeti/lockstep.yaml", fmt.Sprintf("ganeti-user: %q\nganeti-confd-group: %q\nganeti-daemons-group: %q\nganeti-rapi-user: %q\nganeti-confd-user: %q\nganeti-mond-user: %q\nganeti-share: %s\n",
		strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid()), strconv.Itoa(os.Getegid()), strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Geteuid()), modules))
	for name := range faceLogs {
		require.NoError(t, os.Symlink(filepath.Join(programs, "lockstepd"), b.path(name)))
	}
	b.env = append(os.Environ(), "GANETI_ROOTDIR="+b.root, "GANETI_HOSTNAME=node1", "STANDIN_DATA="+b.path("var/lib/ganeti"), "STANDIN_RUN="+b.path("run/ganeti"))
	t.Cleanup(func() {
		b.end(luxidName, syscall.SIGKILL)
		b.end(wconfdName, syscall.SIGKILL)
		(&ganetiQueue{d}).endStandIns(b.path("run/ganeti"))
		if t.Failed() {
			for _, file := range faceLogs {
				log, _ := os.ReadFile(b.path("var/log/ganeti", file))
				t.Logf("%s:\n%s", file, log)
			}
		}
	})
	return b
}

func (b *faceBench) path(names ...string) string {
	return filepath.Join(append([]string{b.root}, names...)...)
}

func (b *faceBench) write(name, content string) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o750))
	require.NoError(b.t, os.WriteFile(b.path(name), []byte(content), 0o640))
}

// command runs a daemon's command line, and returns its exit code and its output.
func (b *faceBench) command(name string, args ...string) (code int, output string) {
	b.t.Helper()
	cmd := exec.Command(b.path(name), args...)
	cmd.Env = b.env
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(b.t, err)
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

// start starts a daemon as daemon-util does, and returns its pid.
func (b *faceBench) start(name string) int {
	b.t.Helper()
	code, output := b.command(name, "--no-voting", "--yes-do-it")
	require.Zero(b.t, code, output)
	pid := b.pid(name)
	require.NotZero(b.t, pid)
	return pid
}

// pid is the pid of a daemon that runs; 0: it does not.
func (b *faceBench) pid(name string) int {
	pid, locked := persistence.IsPIDFileLocked(persistence.PIDFilePath(b.path("run/ganeti"), name))
	if !locked {
		return 0
	}
	return pid
}

// end ends a daemon and waits until its process is gone.
func (b *faceBench) end(name string, signal syscall.Signal) {
	pid := b.pid(name)
	if pid == 0 {
		return
	}
	_ = syscall.Kill(pid, signal)
	require.Eventually(b.t, func() bool { return b.pid(name) == 0 }, patience, time.Millisecond)
}

func (b *faceBench) dial() *client {
	b.t.Helper()
	c, err := luxiclient.Dial(context.Background(), b.path("run/ganeti/socket/ganeti-query"), luxiclient.Options{AnswerTimeout: patience})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	return &client{b.t, c}
}

// wconf makes a call of ganeti-wconfd.
func (b *faceBench) wconf(method string, args ...any) (result any) {
	b.t.Helper()
	c, err := luxiclient.Dial(context.Background(), b.path("run/ganeti/socket/ganeti-wconfd"), luxiclient.Options{AnswerTimeout: patience})
	require.NoError(b.t, err)
	defer c.Close()
	require.NoError(b.t, c.Call(context.Background(), method, args, &result))
	return result
}

func (b *faceBench) permit(id int64, op int) {
	b.t.Helper()
	b.write(fmt.Sprintf("var/lib/ganeti/go-%d-%d", id, op), "")
}

func (b *faceBench) queueFiles() map[string]string {
	b.t.Helper()
	files := map[string]string{}
	require.NoError(b.t, filepath.Walk(b.path("var/lib/ganeti/queue"), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			content, readErr := os.ReadFile(path)
			files[path], err = string(content), readErr
		}
		return err
	}))
	return files
}

// The daemons have the names, pid files and exit codes that Ganeti's tools ask for.
func TestFacesStartAsGanetisDaemons(t *testing.T) {
	t.Parallel()
	b := newFaceBench(t)
	wconfd := b.start(wconfdName)
	luxid := b.start(luxidName)
	for name, pid := range map[string]int{wconfdName: wconfd, luxidName: luxid} {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		require.NoError(t, err)
		require.Equal(t, name+"\n", string(comm))
		content, err := os.ReadFile(b.path("run/ganeti", name+".pid"))
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(pid)+"\n", string(content))
		info, err := os.Stat(b.path("run/ganeti", name+".pid"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		code, output := b.command(name, "--no-voting", "--yes-do-it")
		require.Equal(t, exitFailed, code)
		require.Contains(t, output, "writing PID file; already locked?: resource exhausted")
	}
	require.Equal(t, "probe", b.wconf("echo", "probe"))
	c := b.dial()
	id := c.submit(delayOp())
	b.permit(id, 0)
	require.Equal(t, "success", c.await(id).Status)

	// SIGHUP opens the log again, and nothing else.
	for _, name := range []string{wconfdName, luxidName} {
		log := b.path("var/log/ganeti", faceLogs[name])
		require.NoError(t, os.Rename(log, log+".1"))
		require.NoError(t, syscall.Kill(b.pid(name), syscall.SIGHUP))
		require.Eventually(t, func() bool { _, err := os.Stat(log); return err == nil }, patience, time.Millisecond)
	}
	require.Equal(t, []int{wconfd, luxid}, []int{b.pid(wconfdName), b.pid(luxidName)})

	b.end(luxidName, syscall.SIGTERM)
	b.end(wconfdName, syscall.SIGTERM)
	require.NoFileExists(t, b.path("run/ganeti/ganeti-luxid.pid"))
	require.NoFileExists(t, b.path("run/ganeti/ganeti-wconfd.pid"))
	require.NoFileExists(t, b.path("var/lib/ganeti/queue/lock"))
}

// The options and exit codes of Ganeti's daemons.
func TestFaceOptions(t *testing.T) {
	t.Parallel()
	b := newFaceBench(t)
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"-V"}, 0, "ganeti-luxid (ganeti) version 3.0.2-3\n"},
		{[]string{"-h"}, 0, "--no-user-checks"},
		{[]string{"--help-completion"}, 0, "--no-voting none"},
		{[]string{"--no-such-option"}, exitUsage, "no-such-option"},
		{[]string{"--syslog=maybe"}, exitUsage, "none of no, yes and only"},
		{[]string{"--force-node"}, exitUsage, "force-node"},
		{[]string{"argument"}, exitUsage, "takes no arguments"},
		{[]string{"--no-voting"}, exitFailed, "The no-voting option is dangerous"},
	} {
		code, output := b.command(luxidName, c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, output)
		require.Contains(t, output, c.text, "%v", c.args)
	}
	b.write("var/lib/ganeti/ssconf_master_node", "node2\n")
	code, output := b.command(luxidName)
	require.Equal(t, []any{exitNotMaster, "Not master, exiting.\n"}, []any{code, output})
	code, output = b.command(wconfdName, "--force-node", "--no-voting", "--yes-do-it", "--syslog=no", "-d")
	require.Zero(t, code, output)

	b.write("etc/ganeti/lockstep.yaml", "ganeti-user: \"4711\"\nganeti-confd-group: \"4711\"\nganeti-daemons-group: \"4711\"\n")
	b.write("var/lib/ganeti/ssconf_master_node", "node1\n")
	code, output = b.command(luxidName)
	require.Equal(t, exitFailed, code)
	require.Contains(t, output, fmt.Sprintf("started using wrong user ID (%d), expected 4711", os.Geteuid()))
}

// ganeti-wconfd runs alone: it touches nothing of the queue. Each of the two daemons is stopped and started again, in order and
// by kill -9, while a job runs and holds a lock: job, lock and configuration survive, and a client gets its answer.
func TestFacesSurviveEachOther(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			b := newFaceBench(t)
			before := b.queueFiles()
			b.start(wconfdName)
			require.Equal(t, "alone", b.wconf("echo", "alone"))
			require.Equal(t, before, b.queueFiles())

			b.start(luxidName)
			c := b.dial()
			id := c.submit(delayOp(), delayOp(), delayOp(), delayOp())
			c.awaitOpStatus(id, 0, "running")
			live, err := filepath.Glob(b.path("run/ganeti/livelocks/job_*"))
			require.NoError(t, err)
			require.Len(t, live, 1)
			owner := []any{id, live[0], os.Getpid()}
			b.wconf("tryUpdateLocks", owner, []any{[]any{"node/n1", "exclusive"}})
			held := b.wconf("listLocks", owner)
			require.NotEmpty(t, held)

			b.end(luxidName, signal)
			require.Eventually(t, func() bool { _, err := os.Stat(b.path("run/ganeti/ganeti-luxid.pid")); return err != nil }, patience, time.Millisecond, "also after kill -9: ganeti-wconfd removes the file of the dead one")
			require.Equal(t, held, b.wconf("listLocks", owner), "without ganeti-luxid")
			b.permit(id, 0)
			b.start(luxidName)
			c = b.dial()
			c.awaitOpStatus(id, 1, "running")
			require.Equal(t, held, b.wconf("listLocks", owner))

			b.end(wconfdName, signal)
			answered := make(chan string, 1)
			waiting := b.dial()
			go func() {
				var status [][]any
				if waiting.Call(context.Background(), "QueryJobs", []any{[]int64{id}, []string{"status"}}, &status) == nil {
					answered <- fmt.Sprint(status)
				}
				close(answered)
			}()
			b.permit(id, 1)
			b.start(wconfdName)
			// Between two opcodes the status is that of the next one.
			require.Contains(t, []string{"[[queued]]", "[[waiting]]", "[[running]]"}, <-answered, "a client that has connected meanwhile")
			c = b.dial()
			c.awaitOpStatus(id, 2, "running")
			require.Equal(t, held, b.wconf("listLocks", owner))
			b.permit(id, 2)
			b.permit(id, 3)
			require.Equal(t, "success", c.await(id).Status)
		})
	}
}

// A change of the configuration that is answered just before kill -9 of either daemon is there afterwards, and on the disk when
// ganeti-wconfd has ended in order. It comes over either socket.
func TestFacesLoseNoChangeOfTheConfiguration(t *testing.T) {
	t.Parallel()
	b := newFaceBench(t)
	b.start(wconfdName)
	b.start(luxidName)
	cluster := func() map[string]any { return b.wconf("readConfig").(map[string]any)["cluster"].(map[string]any) }
	size, rules := float64(20), 0
	for range 3 {
		for _, killed := range []string{wconfdName, luxidName} {
			size++
			changed := cluster()
			changed["candidate_pool_size"] = size
			// null: the locks of clients are not read yet, or a client has the configuration locked. Ganeti's clients ask again, too.
			for since := time.Now(); b.wconf("updateCluster", changed) == nil; {
				require.Less(t, time.Since(since), patience)
			}
			b.end(killed, syscall.SIGKILL)
			b.start(killed)
			require.InDelta(t, size, cluster()["candidate_pool_size"], 0, "over the socket of ganeti-wconfd, after kill -9 of %s", killed)

			var rule string
			b.dial().call("ReplaceFilter", &rule, nil, 0, []any{[]any{"jobid", []any{">", "id", 1000}}}, "PAUSE", []any{})
			rules++
			b.end(killed, syscall.SIGKILL)
			b.start(killed)
			filters := b.wconf("readConfig").(map[string]any)["filters"].(map[string]any)
			require.Contains(t, filters, rule, "over the socket of ganeti-luxid, after kill -9 of %s", killed)
			require.Len(t, filters, rules)
		}
	}
	b.end(luxidName, syscall.SIGTERM)
	b.end(wconfdName, syscall.SIGTERM)
	content, err := os.ReadFile(b.path("var/lib/ganeti/config.data"))
	require.NoError(t, err)
	var onDisk struct {
		Cluster struct {
			Size float64 `json:"candidate_pool_size"`
		} `json:"cluster"`
		Filters map[string]any `json:"filters"`
	}
	require.NoError(t, json.Unmarshal(content, &onDisk))
	require.InDelta(t, size, onDisk.Cluster.Size, 0)
	require.Len(t, onDisk.Filters, rules)
}

// Ganeti's own daemon beside lockstep's is refused by the pid file, and lockstep's beside Ganeti's.
func TestFacesExcludeGanetisDaemons(t *testing.T) {
	t.Parallel()
	b := newFaceBench(t)
	require.NoError(t, os.MkdirAll(b.path("run/ganeti"), 0o750))
	stock := func(name string) *exec.Cmd { // locks as Ganeti's daemons do
		return exec.Command("/usr/bin/python3", "-c", "import fcntl, sys\nf = open(sys.argv[1], 'a')\nfcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint('locked', flush=True)\nsys.stdin.read()",
			b.path("run/ganeti", name+".pid"))
	}
	for _, name := range []string{wconfdName, luxidName} {
		other := stock(name)
		in, err := other.StdinPipe()
		require.NoError(t, err)
		out, err := other.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, other.Start())
		_, err = out.Read(make([]byte, 6))
		require.NoError(t, err)
		code, output := b.command(name, "--no-voting", "--yes-do-it")
		require.Equal(t, exitFailed, code)
		require.Contains(t, output, "already locked?")
		require.NoError(t, in.Close())
		require.NoError(t, other.Wait())

		b.start(name)
		text, err := stock(name).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(text), "BlockingIOError")
	}
	// A daemon that has the queue without a pid file is found by the lock of the queue.
	b.end(luxidName, syscall.SIGTERM)
	lock, err := persistence.LockQueue(b.path("var/lib/ganeti"), ownership.Rules{})
	require.NoError(t, err)
	code, output := b.command(luxidName, "--no-voting", "--yes-do-it")
	require.Equal(t, exitFailed, code)
	require.Contains(t, output, "another daemon runs on this queue")
	require.NoError(t, lock.Release())
	require.Equal(t, "lives", b.wconf("echo", "lives"))
	b.start(luxidName)
}
