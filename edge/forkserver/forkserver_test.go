package forkserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/edge/pidfd"
)

const patience = 60 * time.Second

// TestMain keeps descriptors that this program was started with from the processes of the tests.
func TestMain(m *testing.M) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	os.Exit(m.Run())
}

// python returns the interpreter that Ganeti's packages use.
func python(t testing.TB) string {
	const path = "/usr/bin/python3"
	if exec.Command(path, "-c", "import os; os.pidfd_open").Run() != nil {
		t.Skip("NOT RUN: /usr/bin/python3 is missing, or older than 3.9")
	}
	return path
}

// fixture is a fork server with a stand-in for Ganeti's program.
type fixture struct {
	t      testing.TB
	share  string
	stderr *os.File
	config Config
	server *Server

	mu  sync.Mutex
	log bytes.Buffer
}

func (f *fixture) Write(data []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(data)
}

func (f *fixture) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

// prepare copies the stand-in, so that a test may change it.
func prepare(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, share: filepath.Join(t.TempDir(), "share")}
	require.NoError(t, os.CopyFS(f.share, os.DirFS("testdata/share")))
	var err error
	f.stderr, err = os.OpenFile(filepath.Join(t.TempDir(), "stderr"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.stderr.Close() })
	log := logrus.New()
	log.SetOutput(f)
	f.config = Config{Log: log, Python: python(t), Script: filepath.Join(f.share, "ganeti", "jqueue", "exec.py"), Dir: filepath.Join(t.TempDir(), "program"),
		Environment: f.environment(), Stderr: f.stderr, Start: startProcess}
	return f
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := prepare(t)
	f.start()
	return f
}

func (f *fixture) start() {
	f.server = New(f.config)
	f.t.Cleanup(f.server.Close)
	f.awaitReady()
}

func (f *fixture) awaitReady() {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return f.server.Ready() || strings.Contains(f.logged(), "cannot be used") }, patience, time.Millisecond)
	require.True(f.t, f.server.Ready(), "%s", f.logged())
}

func (f *fixture) environment() []string {
	return append(os.Environ(), "PYTHONPATH="+f.share, "PYTHONDONTWRITEBYTECODE=1", "GNT_DEBUG=0", "STRANGE=\xff\xfe")
}

func startProcess(program string, args, environment []string, files []*os.File, pidFD *int) (*os.Process, error) {
	return os.StartProcess(program, args, &os.ProcAttr{Dir: "/", Env: environment, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: pidFD}})
}

// standIn is a running stand-in.
type standIn struct {
	t       testing.TB
	pid     int
	process *pidfd.Process
	in      *os.File
	out     *bufio.Reader
	child   *Child // nil: executed
}

// pipes returns the daemon's ends of a job's pipes, and the descriptors of the process.
func (f *fixture) pipes() (in, out *os.File, files [3]*os.File) {
	inRead, inWrite, err := os.Pipe()
	require.NoError(f.t, err)
	outRead, outWrite, err := os.Pipe()
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _, _ = inWrite.Close(), outRead.Close() })
	return inWrite, outRead, [3]*os.File{inRead, outWrite, f.stderr}
}

func (f *fixture) fork(job int64) *standIn { f.t.Helper(); return f.forkWith(job) }

// execute starts the program as the daemon does without a fork server.
func (f *fixture) execute(job int64) *standIn {
	f.t.Helper()
	in, out, files := f.pipes()
	fd := -1
	started, err := f.config.Start(f.config.Python, []string{f.config.Python, f.config.Script, strconv.FormatInt(job, 10)}, f.environment(), files[:], &fd)
	require.NoError(f.t, err)
	_, _ = files[0].Close(), files[1].Close()
	process, err := pidfd.FromDescriptor(fd, started.Pid)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = started.Kill(); _, _ = started.Wait(); _ = process.Close() })
	return &standIn{t: f.t, pid: started.Pid, process: process, in: in, out: bufio.NewReader(out)}
}

// state reads what the program says of itself.
func (p *standIn) state() map[string]any {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(p.t, err)
	var state map[string]any
	require.NoError(p.t, json.Unmarshal([]byte(strings.TrimPrefix(line, "the state: ")), &state))
	return state
}

func (p *standIn) tell(word string) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, word)
	require.NoError(p.t, err)
}

// rest is what the program writes until its end.
func (p *standIn) rest() string {
	p.t.Helper()
	text, err := io.ReadAll(p.out)
	require.NoError(p.t, err)
	require.True(p.t, p.process.EndsWithin(patience))
	return string(text)
}

// startUnusual starts a process as a daemon would that was itself started with unusual attributes.
func startUnusual(program string, args, environment []string, files []*os.File, pidFD *int) (*os.Process, error) {
	const script = `import os, resource, signal, sys
os.umask(0o027)
resource.setrlimit(resource.RLIMIT_CORE, (7, 8))
resource.setrlimit(resource.RLIMIT_NOFILE, (777, 778))
for number in (signal.SIGUSR2, signal.SIGHUP):
  signal.signal(number, signal.SIG_IGN)
with open("/proc/self/oom_score_adj", "w") as f:
  f.write("123")
os.nice(3)
os.chdir("/usr")
os.execv(sys.argv[1], sys.argv[1:])`
	return startProcess(program, append([]string{program, "-c", script}, args...), environment, files, pidFD)
}

// A child is compared field by field with an executed process: descriptors, signals, limits, environment, users and groups, mask of
// modes, control group, session, command line, and what the interpreter has. The fields that may differ are those below.
func TestAChildIsLikeAnExecutedProcess(t *testing.T) {
	f := newFixture(t)
	a, b := compare(t, f)
	require.Equal(t, b, a)
}

// What an executed process inherits from the daemon a child inherits by the fork server.
func TestAChildInheritsLikeAnExecutedProcess(t *testing.T) {
	f := prepare(t)
	f.config.Start = startUnusual
	f.start()
	a, b := compare(t, f)
	require.Equal(t, "0027", a["mask of modes"])
	require.Equal(t, "/usr", a["directory"])
	require.Equal(t, "123\n", a["oom"])
	require.Contains(t, a["limits"], "777")
	require.Equal(t, "1", a["signals"].(map[string]any)[strconv.Itoa(int(unix.SIGUSR2))])
	require.Equal(t, b, a)
}

// compare returns what a child and an executed process say of themselves, without what differs between any two processes.
func compare(t *testing.T, f *fixture) (a, b map[string]any) {
	forked, executed := f.fork(4711), f.execute(4711)
	a, b = forked.state(), executed.state()
	require.EqualValues(t, forked.pid, a["pid"])
	for name, state := range map[string]map[string]any{"forked": a, "executed": b} {
		require.Equal(t, state["pid"], state["pgrp"], name)
		require.Equal(t, state["pid"], state["session"], name)
		descriptors := state["descriptors"].(map[string]any)
		require.Len(t, descriptors, 3, name)
		for _, pipe := range []string{"0", "1"} { // each process has other pipes
			require.Contains(t, descriptors[pipe].([]any)[0], "pipe:[", name)
			descriptors[pipe].([]any)[0] = "pipe"
		}
	}
	require.NotEqual(t, a["urandom"], b["urandom"])
	require.NotEqual(t, a["random"], b["random"])
	require.EqualValues(t, os.Getpid(), b["ppid"])
	require.NotEqual(t, a["loaded by"], a["pid"], "the fork server has loaded the modules")
	// SIGCHLD is ignored, as in the jobs of Ganeti's daemon. os/exec cannot give an executed process an ignored signal that is
	// not ignored in the daemon.
	signal := strconv.Itoa(int(unix.SIGCHLD))
	require.Equal(t, "1", a["signals"].(map[string]any)[signal])
	require.Equal(t, "0", b["signals"].(map[string]any)[signal])
	b["signals"].(map[string]any)[signal] = "1"
	ignored := b["kernel's signals"].([]any)
	bits, err := strconv.ParseUint(ignored[1].(string), 16, 64)
	require.NoError(t, err)
	ignored[1] = fmt.Sprintf("%016x", bits|1<<(unix.SIGCHLD-1))
	for _, field := range []string{"pid", "ppid", "pgrp", "session", "urandom", "random", "loaded by"} {
		delete(a, field)
		delete(b, field)
	}
	for field, value := range b {
		require.Equal(t, value, a[field], field)
	}
	return a, b
}

func TestTheEndIsThatOfTheInterpreter(t *testing.T) {
	f := newFixture(t)
	for word, want := range map[string]struct {
		output string
		status int
	}{
		"exit":  {"at the end\n", 7},
		"raise": {"at the end\n", 1},
		"":      {"unwritten at the end\n", 0},
	} {
		for name, start := range map[string]func(int64) *standIn{"forked": f.fork, "executed": f.execute} {
			p := start(1)
			p.state()
			p.tell(word)
			require.Equal(t, want.output, p.rest(), "%s %q", name, word)
			if p.child != nil {
				status, known := p.child.Status()
				require.True(t, known)
				require.Equal(t, want.status, status.ExitStatus(), "%q", word)
			}
		}
	}
	text, err := os.ReadFile(f.stderr.Name())
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(text), "ValueError: as told\n"), "%s", text)
}

// No child sees what was meant for another one.
func TestChildrenShareNothing(t *testing.T) {
	f := newFixture(t)
	first := f.fork(1)
	one := first.state()
	second := f.forkWith(2, "OF_THE_SECOND=1")
	two := second.state()
	third := f.fork(3)
	three := third.state()
	require.NotEqual(t, one["random"], two["random"])
	require.Contains(t, two["environment"], "OF_THE_SECOND")
	require.NotContains(t, three["environment"], "OF_THE_SECOND")
	require.Len(t, three["descriptors"], 3)
	// The pipe of the second one closes with it, although the others and the server live.
	require.NoError(t, second.process.Signal(unix.SIGKILL))
	require.Empty(t, second.rest())
	for _, p := range []*standIn{first, third} {
		p.tell("")
		require.Equal(t, "unwritten at the end\n", p.rest())
	}
}

func TestTheStatusOfAKilledChild(t *testing.T) {
	f := newFixture(t)
	p := f.fork(1)
	p.state()
	require.NoError(t, p.process.Signal(unix.SIGKILL))
	p.rest()
	status, known := p.child.Status()
	require.True(t, known)
	require.True(t, status.Signaled())
	require.Equal(t, unix.SIGKILL, status.Signal())
}

func (f *fixture) pid() int {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	if f.server.current == nil {
		return 0
	}
	return f.server.current.pid
}

// Children outlive the server, and the next server takes its place.
func TestTheServerIsKilled(t *testing.T) {
	f := newFixture(t)
	p := f.fork(1)
	p.state()
	before := f.pid()
	require.NoError(t, unix.Kill(before, unix.SIGKILL))
	require.Eventually(t, func() bool { now := f.pid(); return now != 0 && now != before }, patience, time.Millisecond)
	require.False(t, p.process.Ended())
	p.tell("")
	require.Equal(t, "unwritten at the end\n", p.rest())
	_, known := p.child.Status()
	require.False(t, known)
	next := f.fork(2)
	next.state()
}

func TestChildrenOutliveTheDaemon(t *testing.T) {
	f := newFixture(t)
	p := f.fork(1)
	p.state()
	server, err := pidfd.Open(f.pid())
	require.NoError(t, err)
	defer server.Close()
	f.server.Close()
	f.server.stop = make(chan struct{}) // Cleanup closes it, too
	require.True(t, server.EndsWithin(patience))
	require.False(t, p.process.Ended())
	p.tell("")
	require.Equal(t, "unwritten at the end\n", p.rest())
}

// A server that is stopped does not answer. A child may exist then, so the caller has to see the end of the pipe.
func TestASilentServer(t *testing.T) {
	f := newFixture(t)
	current := f.server.current
	process, err := pidfd.Open(current.pid)
	require.NoError(t, err)
	defer process.Close()
	require.NoError(t, process.Signal(unix.SIGSTOP))
	_, out, files := f.pipes()
	result := make(chan error, 1)
	go func() {
		_, err := f.server.Fork(1, f.environment(), files)
		result <- err
	}()
	require.Eventually(t, func() bool { return unread(t, current) > 0 }, patience, time.Millisecond)
	current.end() // as after answerTimeout
	require.ErrorIs(t, <-result, ErrUnanswered)
	_, _ = files[0].Close(), files[1].Close()
	require.True(t, process.EndsWithin(patience))
	text, err := io.ReadAll(out) // the request with its descriptors is gone
	require.NoError(t, err)
	require.Empty(t, text)
}

// unread is the size of what the server has not received, in bytes.
func unread(t *testing.T, p *process) (size int) {
	conn, err := p.conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Control(func(fd uintptr) {
		var err error
		size, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		require.NoError(t, err)
	}))
	return size
}

func TestChangedFiles(t *testing.T) {
	f := newFixture(t)
	for i, change := range []func(path string) error{
		func(path string) error { return os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)) },
		func(path string) error { // as a package manager does: another inode with the same content and time
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path+".new", content, 0o600); err != nil {
				return err
			}
			if err := os.Chtimes(path+".new", info.ModTime(), info.ModTime()); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		p := f.fork(int64(i + 1))
		p.state()
		before := f.pid()
		require.NoError(t, change(filepath.Join(f.share, "ganeti", "standin.py")))
		_, _, files := f.pipes()
		_, err := f.server.Fork(1, f.environment(), files)
		require.ErrorIs(t, err, ErrNotReady)
		f.awaitReady()
		require.NotEqual(t, before, f.pid())
		p.tell("") // a child of the former server goes on, and its end is seen
		require.Equal(t, "unwritten at the end\n", p.rest())
		status, known := p.child.Status()
		require.True(t, known)
		require.Zero(t, status.ExitStatus())
	}
}

// After a number of children another server takes the place of the first, which ends after the last of its children.
func TestAServerIsReplacedAfterItsChildren(t *testing.T) {
	f := newFixture(t)
	f.server.childrenMax = 3
	before := f.pid()
	first, err := pidfd.Open(before)
	require.NoError(t, err)
	defer first.Close()
	var children []*standIn
	for id := range int64(f.server.childrenMax + 1) {
		p := f.fork(id + 1)
		p.state()
		children = append(children, p)
	}
	require.Eventually(t, func() bool { now := f.pid(); return now != 0 && now != before }, patience, time.Millisecond)
	f.fork(9).state()
	for _, p := range children {
		require.False(t, first.Ended())
		p.tell("exit")
		p.rest()
		status, known := p.child.Status()
		require.True(t, known)
		require.Equal(t, 7, status.ExitStatus())
	}
	require.True(t, first.EndsWithin(patience))
}

// Without memory for a child the server makes none, says so, and goes on.
func TestAServerThatCannotFork(t *testing.T) {
	f := prepare(t)
	path, full := filepath.Join(f.share, "ganeti", "standin.py"), filepath.Join(t.TempDir(), "full")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	code := fmt.Sprintf("\nimport errno\noriginal = os.fork\ndef fork():\n  if os.path.exists(%q):\n    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))\n  return original()\nos.fork = fork\n", full)
	require.NoError(t, os.WriteFile(path, append(content, code...), 0o600))
	f.start()
	require.NoError(t, os.WriteFile(full, nil, 0o600))
	_, out, files := f.pipes()
	_, err = f.server.Fork(1, f.environment(), files)
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Text, "Cannot allocate memory")
	_, _ = files[0].Close(), files[1].Close()
	text, err := io.ReadAll(out) // the server has closed the descriptors
	require.NoError(t, err)
	require.Empty(t, text)
	before := f.pid()
	require.NoError(t, os.Remove(full))
	f.fork(2).state()
	require.Equal(t, before, f.pid())
}

// A program that cannot be loaded twice, has threads, or opens a file is executed.
func TestProgramsThatAreNotForked(t *testing.T) {
	for name, code := range map[string]string{
		"it has threads":  "import threading, time\nthreading.Thread(target=time.sleep, args=(300,), daemon=True).start()\n",
		"it opens a file": "FILE = open('/dev/null')\n",
		"it fails":        "raise ValueError('as told')\n",
		"it ends":         "import sys\nsys.exit(0)\n",
		"it is missing":   "",
	} {
		t.Run(name, func(t *testing.T) {
			f := prepare(t)
			path := filepath.Join(f.share, "ganeti", "standin.py")
			require.NoError(t, os.WriteFile(path, []byte(code), 0o600))
			if code == "" {
				require.NoError(t, os.Remove(path))
			}
			f.server = New(f.config)
			defer f.server.Close()
			require.Eventually(t, func() bool { return strings.Contains(f.logged(), "cannot be used") }, patience, time.Millisecond)
			_, _, files := f.pipes()
			_, err := f.server.Fork(1, f.environment(), files)
			require.ErrorIs(t, err, ErrNotReady)
			require.Equal(t, 1, strings.Count(f.logged(), "cannot be used"), "it is not tried again at once")
		})
	}
}

// Nothing of what the server does not understand is executed, and it does not go on.
func TestBadRequests(t *testing.T) {
	for name, bad := range map[string]string{
		"no object": "7\n", "a key too many": `{"request":1,"job":1,"more":1}` + "\n", "a key too few": `{"request":1}` + "\n",
		"no number": `{"request":1,"job":"1"}` + "\n", "a bad number": `{"request":1,"job":0}` + "\n", "no environment": `{"request":1,"job":1}`,
		"no end": `{"request":1,"job":1}` + "\nA=1", "no JSON": "{\n", "a truth": `{"request":true,"job":1}` + "\n", "no descriptors": `{"request":1,"job":1}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			p := f.server.current
			descriptors := []int{0, 1, 2}
			if name == "no descriptors" {
				descriptors = descriptors[:2]
			}
			_, _, err := p.conn.WriteMsgUnix([]byte(bad), unix.UnixRights(descriptors...), nil)
			require.NoError(t, err)
			select {
			case <-p.done:
			case <-time.After(patience):
				require.Fail(t, "it goes on")
			}
		})
	}
}

// The daemon does not trust the server either: a message that no server sends ends it.
func TestBadAnswers(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	require.NoError(t, err)
	defer unix.Close(self)
	for _, bad := range []struct {
		text        string
		descriptors []int
	}{
		{`{"request":1,"pid":7}`, []int{int(null.Fd())}}, {`{"request":1,"pid":7}`, []int{self}}, {`{"request":1,"pid":7}`, nil},
		{`{"request":2,"error":"x"}`, nil}, {`{}`, nil}, {`{"more":1}`, nil}, {`[`, nil}, {`{"files":[["/x",1,2,3]]}`, nil},
		{`{"pid":7,"status":0}`, []int{self}},
	} {
		p := &process{requests: map[uint64]chan answer{1: make(chan answer, 1)}, exits: map[int]chan<- unix.WaitStatus{}}
		require.Error(t, deliver(t, p, bad.text, bad.descriptors...), "%s", bad.text)
	}
}

// deliver lets a process of which no goroutine reads take one message.
func deliver(t *testing.T, p *process, text string, descriptors ...int) error {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer closeAll(pair[:])
	require.NoError(t, unix.Sendmsg(pair[0], []byte(text), unix.UnixRights(descriptors...), nil, 0))
	buffer, rights := make([]byte, messageMax), make([]byte, unix.CmsgSpace(4*4))
	n, rightsLen, flags, _, err := unix.Recvmsg(pair[1], buffer, rights, 0)
	require.NoError(t, err)
	return p.take(buffer[:n], rights[:rightsLen], flags)
}

// A child may end, and the server reap it, before the daemon reads the answer that names it.
func TestAChildThatWasReapedBeforeItsAnswerIsRead(t *testing.T) {
	fd := -1
	started, err := startProcess("/bin/sh", []string{"sh", "-c", "exit 7"}, nil, nil, &fd)
	require.NoError(t, err)
	state, err := started.Wait()
	require.NoError(t, err)
	result := make(chan answer, 1)
	p := &process{requests: map[uint64]chan answer{1: result}, exits: map[int]chan<- unix.WaitStatus{}}
	require.NoError(t, deliver(t, p, fmt.Sprintf(`{"request":1,"pid":%d}`, started.Pid), fd))
	require.NoError(t, unix.Close(fd))
	require.NoError(t, deliver(t, p, fmt.Sprintf(`{"pid":%d,"status":%d}`, started.Pid, state.Sys())))
	a := <-result
	require.NoError(t, a.err)
	defer a.child.Process.Close()
	require.True(t, a.child.Process.AwaitEnd())
	status, known := a.child.Status()
	require.True(t, known)
	require.Equal(t, 7, status.ExitStatus())
}

func TestTheProgramIsForThisUserAlone(t *testing.T) {
	f := newFixture(t)
	info, err := os.Stat(f.config.Dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())
	entries, err := os.ReadDir(f.config.Dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
		names = append(names, entry.Name())
	}
	require.True(t, slices.Contains(names, mainFile))
	require.Len(t, names, 3, "Python writes nothing there: %v", names)

	require.NoError(t, os.WriteFile(filepath.Join(f.config.Dir, mainFile), []byte("another version"), 0o600))
	_, err = writeProgram(f.config.Dir)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(f.config.Dir, mainFile))
	require.NoError(t, err)
	require.NotEqual(t, "another version", string(content))

	require.NoError(t, os.Chmod(f.config.Dir, 0o755))
	_, err = writeProgram(f.config.Dir)
	require.ErrorContains(t, err, "is not a directory of this user alone")
}

// Each child is killed at a random time. The server does not notice, and no descriptor is left.
func TestKilledChildren(t *testing.T) {
	f := newFixture(t)
	fds := func() int {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", f.pid()))
		require.NoError(t, err)
		return len(entries)
	}
	before, server := fds(), f.pid()
	var wait sync.WaitGroup
	for i := range 100 {
		in, out, files := f.pipes()
		child, err := f.server.Fork(int64(i+1), f.environment(), files)
		require.NoError(t, err)
		_, _ = files[0].Close(), files[1].Close()
		wait.Go(func() {
			if i%2 == 0 {
				_ = child.Process.Signal(unix.SIGKILL)
			}
			_ = in.Close()
			_, _ = io.ReadAll(out)
			child.Process.AwaitEnd()
			_ = child.Process.Close()
			status, known := child.Status()
			if !known || i%2 == 1 && status.ExitStatus() != 0 {
				t.Errorf("child %d: %v %v", i, status, known)
			}
		})
	}
	wait.Wait()
	require.Equal(t, server, f.pid())
	require.Eventually(t, func() bool { return fds() == before }, patience, time.Millisecond)
}

func TestTheHeldConfiguration(t *testing.T) {
	out, err := exec.Command(python(t), "testdata/configuration_test.py", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ok\n", string(out))
}

// A repair of an unknown function is off, and the others and the server are not affected.
func TestRepairsOfUnknownFunctions(t *testing.T) {
	f := prepare(t)
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(f.share, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(f.share, path), []byte(text), 0o600))
	}
	write("ganeti/constants.py", "")
	write("ganeti/mcpu.py", "class Processor(object):\n  def _RequestAndWait(self):\n    pass\n")
	f.config.Repairs = Repairs()
	f.start()
	for _, repair := range Repairs() {
		require.Contains(t, f.logged(), "repair="+repair)
	}
	require.NotContains(t, f.logged(), "lockstep_", "the fork server finds its own modules")
	require.Contains(t, f.logged(), "Processor._RequestAndWait is not the known function")
	f.fork(1).state()
}
