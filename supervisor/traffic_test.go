package supervisor_test

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/wire"
)

// op is an opcode of the standard traffic.
var op = map[string]any{"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": []any{}}

// firstDisk is the disk of the first daemon: a job in each state.
func firstDisk() map[string]string {
	files := map[string]string{paths.SerialPath: "6\n", paths.ArchivePath(0): "nobody looks here"}
	put := func(id int64, change func(*job.Job)) {
		input := json.RawMessage(`{"OP_ID":"OP_TEST_DELAY","duration":1.0,"reason":[]}`)
		j := job.New(job.ID(id), []json.RawMessage{input}, []int{0}, job.Timestamp{Sec: 1}, "/run/livelocks/daemon_0")
		change(j)
		files[paths.JobPath(id)] = string(job.Encode(j))
	}
	ended := func(j *job.Job) { j.Ops[0].Status, j.End = job.Success, job.Timestamp{Sec: 2} }
	put(1, ended)
	put(2, func(*job.Job) {})
	put(3, func(j *job.Job) { j.Livelock = deadLock(3) })
	put(4, func(j *job.Job) { j.Livelock, j.Ops[0].Status = deadLock(4), job.Running })
	put(7, func(*job.Job) {}) // of an interrupted submission
	files[paths.JobPath(5)] = "nonsense"
	return files
}

// deadLock is the livelock of a process that has ended.
func deadLock(id int64) string { return "/run/livelocks/" + paths.JobLivelockNameStart(id) + "_dead" }

// traffic is the requests of the clients in a standard run: every method, and every kind of
// end of a job.
func traffic(w *world) {
	w.accepted = []int64{1, 2, 3, 4}
	for range 2 {
		w.start(func() { (&client{w: w}).submitAndWait(1) })
	}
	w.start(func() { (&client{w: w}).submitAndWait(2) })
	w.start(func() { (&client{w: w}).submitMany() })
	w.start(func() { (&client{w: w}).manage() })
	for id := int64(2); id <= 4; id++ {
		w.start(func() { (&client{w: w}).await(id) })
	}
	w.start(func() {
		w.pause(500 * time.Millisecond)
		(&client{w: w}).checkJob()
	})
}

func ops(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = op
	}
	return all
}

// accept records acknowledged jobs.
func (w *world) accept(ids ...int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepted = append(w.accepted, ids...)
}

// submit repeats a submission until it gets an id.
func (c *client) submit(n int) int64 {
	for {
		var id int64
		result, err := c.call("SubmitJob", ops(n))
		if err == nil && json.Unmarshal(result, &id) == nil {
			c.w.accept(id)
			return id
		}
		c.mustBeOperating(err)
		c.w.pause(100 * time.Millisecond)
	}
}

// mustBeOperating fails the test unless the class of the error permits a client to
// continue.
func (c *client) mustBeOperating(err error) {
	var failed *wire.Error
	switch {
	case err == nil || errors.Is(err, errGone):
	case errors.As(err, &failed) && failed.Class == "JobQueueDrainError":
	case errors.As(err, &failed) && failed.Class == "GenericError" && strings.Contains(err.Error(), "restarted"):
	default:
		c.w.violation("a client was told: %v", err)
	}
}

func (c *client) submitAndWait(n int) { c.await(c.submit(n)) }

func (c *client) submitMany() {
	for {
		var results [][2]any
		result, err := c.call("SubmitManyJobs", []any{ops(1), ops(1)})
		if err == nil && json.Unmarshal(result, &results) == nil {
			for _, r := range results {
				id := int64(r[1].(float64))
				c.w.accept(id)
				defer c.await(id)
			}
			return
		}
		c.mustBeOperating(err)
		c.w.pause(100 * time.Millisecond)
	}
}

// await waits until a job has ended.
func (c *client) await(id int64) {
	var previous any
	for {
		var now struct {
			values []any
			log    []any
		}
		result, err := c.callUntilAnswered("WaitForJobChange", id, []string{"status"}, previous, -1, 60)
		if err != nil {
			c.w.violation("waiting for job %d: %v", id, err)
			return
		}
		if json.Unmarshal(result, &[]any{&now.values, &now.log}) != nil {
			continue // "nochange"
		}
		previous = now.values
		status, _ := now.values[0].(string)
		if s, ok := job.ParseStatus(status); ok && s.Final() {
			return
		}
	}
}

// checkJob sends all queries about a job.
func (c *client) checkJob() {
	c.mustAnswer("QueryJobs", nil, []string{"id", "status", "summary"})
	c.mustAnswer("QueryJobs", []int64{1, 2, 99}, []string{"id", "opstatus", "oplog"})
	c.mustAnswer("QueryConfigValues", []string{"drain_flag"})
	c.mustAnswer("LockstepStatus")
}

func (c *client) mustAnswer(method string, args ...any) {
	if _, err := c.callUntilAnswered(method, args...); err != nil {
		c.w.violation("%s: %v", method, err)
	}
}

// manage sends all requests that change jobs.
func (c *client) manage() {
	id := c.submit(2)
	c.mustAnswer("ChangeJobPriority", id, 19)
	c.mustAnswer("CancelJob", id, false)
	c.mustAnswer("SetDrainFlag", true)
	c.mustAnswer("SetDrainFlag", false)
	c.await(id)
	c.mustAnswer("ArchiveJob", 1)
	c.mustAnswer("AutoArchiveJobs", 3600, 10)
}

// verify checks that every acknowledged job exists and has ended, with the end that its
// process has reported, if any.
func (w *world) verify() {
	w.t.Helper()
	require.Empty(w.t, w.violations)
	seen := map[int64]bool{}
	for _, id := range w.accepted {
		require.False(w.t, seen[id], "id %d was given twice", id)
		seen[id] = true
		file := w.disk.Content(paths.JobPath(id)) + w.disk.Content(paths.ArchivePath(id))
		j, err := job.Decode([]byte(file))
		require.NoError(w.t, err, "job %d", id)
		require.True(w.t, j.Status().Final(), "job %d is %v", id, j.Status())
		if end, said := w.processes.finished[id]; said {
			require.Equal(w.t, end, file, "job %d", id)
		}
	}
	for _, what := range []string{"actor received a message that it does not handle; the message is dropped", "actor panicked while stopping"} {
		require.Empty(w.t, w.env.Logged(what))
	}
}
