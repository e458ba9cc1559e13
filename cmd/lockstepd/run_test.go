package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/job"
)

func TestACommandsLinesStatusAndOrder(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	j := c.await(c.submit(command("sh", "-c", "echo one; echo two >&2; printf three")))
	require.Equal(t, "success", j.Status)
	require.Equal(t, []string{"one"}, j.linesOf("stdout"))
	require.Equal(t, []string{"two"}, j.linesOf("stderr"))
	require.Equal(t, []string{"three"}, j.linesOf("stdout-part"))
	require.JSONEq(t, `{"exit_status": 0}`, j.endOf(0))

	j = c.await(c.submit(command("true"), command("sh", "-c", "exit 3"), command("true")))
	require.Equal(t, []string{"success", "error", "error"}, j.Statuses)
	require.JSONEq(t, `["OpExecError", ["command exited with status 3", {"exit_status": 3}]]`, j.endOf(1))
	require.JSONEq(t, `["OpExecError", ["Preceding opcode failed"]]`, string(j.Results[2]))
}

// endOf is the result of an opcode without what its command has used.
func (j queriedJob) endOf(op int) string {
	return regexp.MustCompile(`, "usage": \{[^}]*\}`).ReplaceAllString(string(j.Results[op]), "")
}

// What a command has used is in its result, however it ends, and in those of its tries.
func TestWhatACommandHasUsed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	const busy = `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; `
	for _, end := range []string{"exit 0", "exit 3", "kill -KILL $$"} {
		j := c.await(c.submit(command("sh", "-c", busy+end)))
		u := job.UsageIn(j.Results[0])
		require.NotNil(t, u, "%s", j.Results[0])
		require.Greater(t, u.CPUSeconds, 0.005)
		require.Less(t, u.CPUSeconds, 60.0)
		require.Greater(t, u.MemoryPeakBytes, int64(500_000))
		require.NotEmpty(t, u.MemoryOf)
	}
	j := c.await(c.submit(command("sh", "-c", busy+"sleep 600").with("timeout", 1)))
	require.Greater(t, job.UsageIn(j.Results[0]).CPUSeconds, 0.005, "%s", j.Results[0])
	require.Nil(t, job.UsageIn(c.await(c.submit(command("/no/such/program"))).Results[0]))
	id := c.submit(retried(map[string]any{"times": 1, "delay": 0.01}, busy+"exit 3"))
	c.await(id)
	tries := c.list(answer.JobSelection{IDs: []int64{id}})[0].Tries
	require.Len(t, tries, 1)
	require.Greater(t, tries[0].Usage.CPUSeconds, 0.005)
}

func TestHowCommandsEnd(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	plain := d.path("plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o644))
	for name, test := range map[string]struct {
		op   op
		want string
	}{
		"signal":       {command("sh", "-c", "kill -KILL $$"), `["OpExecError", ["command was ended by SIGKILL", {"signal": "SIGKILL"}]]`},
		"time-out":     {command("sleep", "60").with("timeout", 0.1), `["OpExecError", ["command timed out after 0.1 s", {"timeout": 0.1}]]`},
		"no shell":     {command("ls -la"), `["OpExecError", ["cannot start ls -la: no such program; the command is not run by a shell: give its words without quotes around all of them, or run sh -c '...'", {"exit_status": 127}]]`},
		"no program":   {command("no-such-program"), `["OpExecError", ["cannot start no-such-program: no such program in the daemon's PATH", {"exit_status": 127}]]`},
		"no permit":    {command(plain), `["OpExecError", ["cannot start ` + plain + `: permission denied", {"exit_status": 126}]]`},
		"no directory": {command("true").with("cwd", "/no/such/directory"), `["OpExecError", ["cannot start true: no such file or directory", {"exit_status": 127}]]`},
		"no executor":  {op{"OP_ID": "OP_CLUSTER_VERIFY"}, `["OpCodeUnknown", ["Unknown opcode"]]`},
		"zero delay":   {op{"OP_ID": "OP_TEST_DELAY", "duration": 0}, `["OpPrereqError", ["Duration must be greater than zero"]]`},
	} {
		j := c.await(c.submit(test.op))
		require.Equal(t, "error", j.Status, name)
		require.JSONEq(t, test.want, j.endOf(0), name)
	}
}

func TestWhatACommandIsGiven(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(command("sh", "-c", `cat; echo "$GREETING $SECRET $LOCKSTEP_JOB_ID $LOCKSTEP_OPCODE"; [ -S "$LOCKSTEP_SOCKET" ] && pwd`).
		with("env", op{"GREETING": "hello"}).with("secret_env", op{"SECRET": "sesame-4711"}).
		with("stdin", "typed\n").with("cwd", "/usr"))
	require.Equal(t, []string{"typed", "hello sesame-4711 1 1", "/usr"}, c.await(id).lines())
}

// A secret value may appear only in the output of a command that prints it.
func TestSecretsAreOnNoDisk(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start("--log-level", "debug")
	c := d.dial()
	require.Equal(t, "success", c.await(c.submit(command("sh", "-c", `case "$SECRET" in ses*4711) exit 0;; esac; exit 1`).with("secret_env", op{"SECRET": "sesame-4711"}))).Status)
	var ops json.RawMessage
	c.call("QueryJobs", &ops, []int64{1}, []string{"ops"})
	require.NotContains(t, string(ops), "sesame-")
	require.NotContains(t, d.logged(), "sesame-")
	require.NoError(t, filepath.WalkDir(d.root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, string(content), "sesame-", path)
		return err
	}))
}

func TestOutputIsSeenWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	gate := d.path("gate")
	id := c.submit(command("sh", "-c", "echo ready; while [ ! -e "+gate+" ]; do sleep 0.02; done"))
	for serial := 0; ; {
		var change [2]json.RawMessage
		c.call("WaitForJobChange", &change, id, []string{"id"}, []int64{id}, serial, 20)
		if strings.Contains(string(change[1]), "ready") {
			break
		}
	}
	require.Equal(t, "running", c.query(id).Status)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Equal(t, "success", c.await(id).Status)
}

func TestWhatACommandLeavesInItsGroupIsEnded(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	j := c.await(c.submit(command("sh", "-c", "sleep 300 & echo $!")))
	require.Equal(t, "success", j.Status)
	require.Eventually(t, func() bool { return isGone(j.lines()[0]) }, patience, 10*time.Millisecond)
}

// isGone reports whether a process does not exist or is a zombie.
func isGone(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestBadInputHarmsNobody(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start("--max-frame", "4096")
	good := d.dial()
	for name, test := range map[string]struct{ request, want string }{
		"malformed JSON":     {"hello", "Failed to parse request"},
		"unknown method":     {`{"method":"Nope","args":[]}`, `Invalid string value for type LuxiReq: \"Nope\"`},
		"unknown opcode":     {`{"method":"SubmitJob","args":[[{"OP_ID":"OP_NOPE"}]]}`, "Unknown opcode OP_NOPE"},
		"unknown parameter":  {`{"method":"SubmitJob","args":[[{"OP_ID":"OP_TEST_DELAY","duration":1,"x":1}]]}`, "Superfluous"},
		"wrong type":         {`{"method":"SubmitJob","args":[[{"OP_ID":"OP_TEST_DELAY","duration":"x"}]]}`, "duration"},
		"one bad among good": {`{"method":"SubmitManyJobs","args":[[[{"OP_ID":"OP_TEST_DELAY","duration":1}],[{"OP_ID":"OP_NOPE"}]]]}`, "Unknown opcode"},
		"a dependency":       {`{"method":"SubmitJob","args":[[{"OP_ID":"OP_TEST_DELAY","duration":1,"depends":[[1,null]]}]]}`, "depends"},
		"oversized frame":    {strings.Repeat("x", 5000), "larger than 4096 bytes"},
	} {
		answer := d.raw(test.request)
		require.Contains(t, answer, `"success":false`, name)
		require.Contains(t, answer, test.want, name)
	}
	var rows []json.RawMessage
	good.call("QueryJobs", &rows, nil, []string{"id"})
	require.Empty(t, rows, "something was recorded")
	require.Equal(t, "success", good.await(good.submit(command("true"))).Status)
}

// raw sends one frame and returns all bytes until the server closes the connection.
func (d *daemon) raw(request string) string {
	conn, err := net.Dial("unix", d.path("run", "socket", "ganeti-query"))
	require.NoError(d.t, err)
	defer conn.Close()
	require.NoError(d.t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write([]byte(request + "\x03"))
	require.NoError(d.t, err)
	var all []byte
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		all = append(all, buffer[:n]...)
		if err != nil {
			return string(all)
		}
	}
}

func TestADaemonThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	fail := func(args ...string) (string, int) {
		cmd := exec.Command(filepath.Join(programs, "lockstepd"), args...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		return string(out), cmd.ProcessState.ExitCode()
	}
	d := newDaemon(t)
	blocked := d.path("file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	out, code := fail("--data-dir", blocked+"/lib", "--run-dir", d.path("run"), "--log-dir", d.path("log"))
	require.Equal(t, 1, code)
	require.Contains(t, out, blocked)
	require.Equal(t, 1, strings.Count(out, "\n"), out)

	out, code = fail("--max-starts", "0")
	require.Equal(t, 2, code)
	require.Contains(t, out, "max-starts")

	d.start()
	out, code = fail(d.args()...)
	require.Equal(t, 1, code)
	require.Contains(t, out, "queue/lock")

	require.Equal(t, 0, d.stop())
	require.NoError(t, os.WriteFile(d.path("lib", "queue", "version"), []byte("7\n"), 0o640))
	out, code = fail(d.args()...)
	require.Equal(t, 1, code)
	require.Contains(t, out, "queue/version")
}
