package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

// ganetiQueue is a daemon in Ganeti mode whose jobs of Ganeti's opcodes have testdata/ganeti in the place of Ganeti's job process.
type ganetiQueue struct{ *daemon }

func newGanetiQueue(t testing.TB, more ...string) *ganetiQueue {
	d := newDaemon(t)
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("NOT RUN: /usr/bin/python3 is missing, with which Ganeti's job process runs")
	}
	ganetiData(t, d.path("lib"))
	d.env = []string{"STANDIN_DATA=" + d.path("lib"), "STANDIN_RUN=" + d.path("run"), "GNT_DEBUG=of the daemon"}
	g := &ganetiQueue{d}
	t.Cleanup(g.endGanetiJobs)
	d.start(append(append(selfAccounts(), "--ganeti-python", python), more...)...)
	return g
}

// endGanetiJobs ends the stand-ins that a failed test has left.
func (g *ganetiQueue) endGanetiJobs() { g.endStandIns(g.path("run")) }

func (g *ganetiQueue) endStandIns(runDir string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range files {
		content, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && strings.Contains(string(content), "STANDIN_RUN="+runDir) && strings.Contains(string(content), "GNT_DEBUG=0") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// permit ends an opcode: with success, or with an error.
func (g *ganetiQueue) permit(id int64, op int, failure string) {
	g.t.Helper()
	path := g.path("lib", "go-"+strconv.FormatInt(id, 10)+"-"+strconv.Itoa(op))
	require.NoError(g.t, os.WriteFile(path+".new", []byte(failure), 0o600))
	require.NoError(g.t, os.Rename(path+".new", path))
}

// awaitChange returns the first change of a job after the given one, as WaitForJobChange pushes it.
func (c *client) awaitChange(id int64, fields []string, previous any, serial any) (values []json.RawMessage, log [][]json.RawMessage) {
	c.t.Helper()
	var change []json.RawMessage
	c.call("WaitForJobChange", &change, id, fields, previous, serial, 25)
	require.Len(c.t, change, 2)
	require.NoError(c.t, json.Unmarshal(change[0], &values))
	require.NoError(c.t, json.Unmarshal(change[1], &log))
	return values, log
}

// awaitOpStatus waits for the changes of a job until an opcode has a status.
func (c *client) awaitOpStatus(id int64, op int, want string) {
	c.t.Helper()
	var previous any
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		values, _ := c.awaitChange(id, []string{"opstatus"}, previous, -1)
		var statuses []string
		require.NoError(c.t, json.Unmarshal(values[0], &statuses))
		if statuses[op] == want {
			return
		}
		previous = values
	}
	c.t.Fatalf("opcode %d of job %d does not become %s", op, id, want)
}

func delayOp() op { return op{"OP_ID": "OP_TEST_DELAY", "duration": 0} }

// Ganeti's process runs Ganeti's opcodes, also those for which lockstep has an executor. Clients see each change that it
// writes, and the secrets arrive as Ganeti's process takes them.
func TestGanetisProcessRunsGanetisOpcodes(t *testing.T) {
	bothWays(t, ganetisProcessRunsGanetisOpcodes)
}

func ganetisProcessRunsGanetisOpcodes(t *testing.T, g *ganetiQueue) {
	c := g.dial()
	id := c.submit(op{"OP_ID": "OP_CLUSTER_REDIST_CONF"}, op{"OP_ID": "OP_TEST_OS_PARAMS", "osparams_secret": op{"pw": "sec1"}})
	c.awaitOpStatus(id, 0, "running")
	_, log := c.awaitChange(id, []string{"status"}, []string{"running"}, 0)
	modules, err := filepath.Abs("testdata/ganeti")
	require.NoError(t, err)
	require.JSONEq(t, strconv.Quote("secret null, debug 0, modules "+modules), string(log[0][3]))
	g.permit(id, 0, "")
	c.awaitOpStatus(id, 1, "running")
	_, log = c.awaitChange(id, []string{"status"}, []string{"running"}, 1)
	require.Contains(t, string(log[0][3]), `secret {\"pw\": \"sec1\"}`)
	g.permit(id, 1, "no disk")
	require.Equal(t, "error", c.await(id).Status)
	require.Equal(t, []string{"success", "error"}, c.query(id).Statuses)

	content, err := os.ReadFile(g.path("lib", "queue", "job-"+strconv.FormatInt(id, 10)))
	require.NoError(t, err)
	j, err := job.Decode(content)
	require.NoError(t, err)
	require.NotContains(t, string(j.Ops[1].Input), "sec1", "the parameters on the disk have no secrets")
}

// The process outlives the daemon. The next daemon adopts it, and shows what it writes.
func TestGanetisProcessOutlivesTheDaemon(t *testing.T) { bothWays(t, ganetisProcessOutlivesTheDaemon) }

func ganetisProcessOutlivesTheDaemon(t *testing.T, g *ganetiQueue) {
	id := g.dial().submit(delayOp(), delayOp())
	g.dial().awaitOpStatus(id, 0, "running")
	g.kill()
	g.start(selfAccounts()...)
	c := g.dial()
	c.awaitOpStatus(id, 0, "running")
	g.permit(id, 0, "")
	c.awaitOpStatus(id, 1, "running")

	g.kill()
	g.permit(id, 1, "")
	g.start(selfAccounts()...)
	require.Equal(t, "success", g.dial().await(id).Status)
}

// Cancel and kill do what they do under Ganeti's daemon, and a death is found at once.
func TestOrdersToGanetisProcess(t *testing.T) { bothWays(t, ordersToGanetisProcess) }

func ordersToGanetisProcess(t *testing.T, g *ganetiQueue) {
	c := g.dial()
	canceled, killed := c.submit(delayOp(), delayOp()), c.submit(delayOp())
	c.awaitOpStatus(canceled, 0, "running")
	c.awaitOpStatus(killed, 0, "running")
	var answer []any
	c.call("CancelJob", &answer, canceled, false)
	require.Equal(t, []any{false, "Job no longer waiting, can't cancel"}, answer)
	g.permit(canceled, 0, "")
	require.Equal(t, []string{"success", "canceled"}, func() []string { c.await(canceled); return c.query(canceled).Statuses }(),
		"the process cancels the rest between two opcodes")
	c.call("CancelJob", &answer, killed, true)
	require.Equal(t, "error", c.await(killed).Status)
}

// Ganeti's process has no signal handlers until it has written the job's file. An order waits for that.
func TestEarlyOrdersToGanetisProcess(t *testing.T) { bothWays(t, earlyOrdersToGanetisProcess) }

func earlyOrdersToGanetisProcess(t *testing.T, g *ganetiQueue) {
	c := g.dial()
	slow := g.path("lib", "slow-1")
	require.NoError(t, os.WriteFile(slow, nil, 0o600))
	id := c.submit(delayOp(), delayOp())
	require.Eventually(t, func() bool { _, err := os.Stat(slow + "-reached"); return err == nil }, patience, time.Millisecond)
	c.call("ChangeJobPriority", nil, id, -7)
	require.NoError(t, os.Remove(slow+"-reached"))
	c.awaitOpStatus(id, 0, "running")
	var answer []any
	c.call("CancelJob", &answer, id, false)
	g.permit(id, 0, "")
	require.Equal(t, "canceled", c.await(id).Status)
	content, err := os.ReadFile(g.path("lib", "queue", "job-1"))
	require.NoError(t, err)
	require.Contains(t, string(content), `"OP_ID": "OP_TEST_DELAY"`)
}

// A job starts when the dependencies of all of its opcodes are final. An opcode with a dependency that has ended otherwise is
// for the process to fail; a first opcode with such a dependency ends the job at once.
func TestDependenciesBeforeGanetisProcess(t *testing.T) {
	t.Parallel()
	g := newGanetiQueue(t)
	c := g.dial()
	first, second := c.submit(delayOp()), c.submit(delayOp())
	waits := c.submit(delayOp().with("depends", []any{[]any{first, []string{"success"}}}), delayOp().with("depends", []any{[]any{second, []string{"success"}}}))
	doomed := c.submit(delayOp().with("depends", []any{[]any{second, []string{"success"}}}))
	c.awaitOpStatus(first, 0, "running")
	g.permit(first, 0, "")
	require.Equal(t, "success", c.await(first).Status)
	require.Equal(t, "waiting", c.query(waits).Status, "for the dependency of its second opcode")
	content, err := os.ReadFile(g.path("lib", "queue", "job-"+strconv.FormatInt(waits, 10)))
	require.NoError(t, err)
	j, err := job.Decode(content)
	require.NoError(t, err)
	require.Equal(t, job.Queued, j.Status(), "on the disk")
	require.Zero(t, j.ProcessID)

	g.permit(second, 0, "fails")
	require.Equal(t, "error", c.await(doomed).Status)
	require.Empty(t, readProcess(t, g, doomed), "no process")
	c.awaitOpStatus(waits, 0, "running")
	g.permit(waits, 0, "")
	g.permit(waits, 1, "")
	c.await(waits)
}

func readProcess(t *testing.T, g *ganetiQueue, id int64) int {
	content, err := os.ReadFile(g.path("lib", "queue", "job-"+strconv.FormatInt(id, 10)))
	require.NoError(t, err)
	j, err := job.Decode(content)
	require.NoError(t, err)
	return j.ProcessID
}

// lockstep's own opcodes run beside Ganeti's, and what they leave in the queue is readable for Ganeti's daemon: its keys and
// its types of log entries only. A job with opcodes of both is refused.
func TestOwnOpcodesInGanetiMode(t *testing.T) {
	t.Parallel()
	g := newGanetiQueue(t)
	c := g.dial()
	id := c.submit(command("sh", "-c", `echo out; echo err >&2; printf part; printf '\377' >&2`))
	require.Equal(t, "success", c.await(id).Status)
	content, err := os.ReadFile(g.path("lib", "queue", "job-"+strconv.FormatInt(id, 10)))
	require.NoError(t, err)
	j, err := job.Decode(content)
	require.NoError(t, err)
	output := map[string]string{}
	for _, entry := range j.Ops[0].Log {
		require.Equal(t, job.LogMessage, entry.Type)
		stream, piece, ok := job.DecodeOutput(entry.Type, entry.Payload)
		require.True(t, ok)
		output[stream] += string(piece)
	}
	require.Equal(t, map[string]string{job.LogStdout: "out\npart", job.LogStderr: "err\n\xff"}, output)

	err = c.Call(t.Context(), "SubmitJob", []any{[]op{delayOp(), command("true")}}, nil)
	require.ErrorContains(t, err, "one process runs all opcodes of a job")
	c.call("SetDrainFlag", nil, false) // without a flag to remove
	c.call("SetDrainFlag", nil, true)
	c.call("SetDrainFlag", nil, true)
	err = c.Call(t.Context(), "SubmitJob", []any{[]op{delayOp()}}, nil)
	require.ErrorContains(t, err, "Queue drained")
	c.call("SetDrainFlag", nil, false)
}

// Each of Ganeti's opcodes is for Ganeti's process.
func TestOriginsOfOpcodes(t *testing.T) {
	ganetis := 0
	for _, name := range opcode.Builtin().Names() {
		j := job.New(1, []json.RawMessage{json.RawMessage(`{"OP_ID":"` + name + `"}`)}, []int{0}, job.Timestamp{Sec: 1}, "")
		if opcode.Builtin().OriginOf(j) == opcode.OfGaneti {
			ganetis++
		} else {
			require.Equal(t, "OP_RUN_COMMAND", name)
		}
	}
	require.Equal(t, 75, ganetis)
}
