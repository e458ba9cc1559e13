package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/wire"
)

// gate is a command that runs until the test opens it.
func (d *daemon) gate(name string) (op, func()) {
	path := d.path(name)
	return command("sh", "-c", "echo up; while [ ! -e "+path+" ]; do sleep 0.02; done"),
		func() { require.NoError(d.t, os.WriteFile(path, nil, 0o600)) }
}

func (c *client) ask(method string, args ...any) (bool, string) {
	c.t.Helper()
	var answer [2]json.RawMessage
	c.call(method, &answer, args...)
	var done bool
	var text string
	require.NoError(c.t, json.Unmarshal(answer[0], &done))
	require.NoError(c.t, json.Unmarshal(answer[1], &text))
	return done, text
}

func (c *client) awaitStatus(id int64, status string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.query(id).Status == status }, patience, 5*time.Millisecond)
}

// fillSlots fills all run slots, so that later jobs stay queued.
func (d *daemon) fillSlots(c *client) (open func()) {
	slot, open := d.gate("slots")
	for range 20 {
		c.submit(slot)
	}
	return open
}

func TestCancel(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	running := c.submit(work, command("true"))
	c.awaitStatus(running, "running")
	done, text := c.ask("CancelJob", running, false)
	require.False(t, done)
	require.Equal(t, "Job no longer waiting, can't cancel", text)

	open2 := d.fillSlots(c)
	queued := c.submit(command("true"))
	done, text = c.ask("CancelJob", queued, false)
	require.True(t, done)
	require.Equal(t, fmt.Sprintf("Dequeued job %d", queued), text)
	require.Equal(t, queriedJob{Status: "canceled", Results: []json.RawMessage{[]byte("null")}, Statuses: []string{"canceled"},
		Log: [][][]json.RawMessage{{}}}, c.query(queued))
	done, text = c.ask("CancelJob", queued)
	require.False(t, done)
	require.Equal(t, fmt.Sprintf("Job %d not found in queue", queued), text)
	done, _ = c.ask("CancelJob", 9999, true)
	require.False(t, done)

	open()
	open2()
	require.Equal(t, "success", c.await(running).Status, "a refused cancel changes nothing")
}

func TestKillEndsWhatRuns(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	for name, submitted := range map[string]op{
		"a command":             command("sh", "-c", "sleep 300 & echo $!; wait"),
		"a delay":               {"OP_ID": "OP_TEST_DELAY", "duration": 300},
		"one that has gone off": command("sh", "-c", "setsid sleep 300 & echo $!; wait"),
	} {
		id := c.submit(command("true"), submitted, command("true"))
		require.Eventually(t, func() bool { return c.query(id).Statuses[1] == "running" }, patience, 5*time.Millisecond)
		done, text := c.ask("CancelJob", id, true)
		require.True(t, done, name)
		require.Equal(t, fmt.Sprintf("Job %d was ended", id), text, name)
		j := c.query(id)
		require.Equal(t, []string{"success", "error", "error"}, j.Statuses, name)
		require.Contains(t, string(j.Results[1]), "Ended on request", name)
		if name == "a command" {
			require.True(t, isGone(j.lines()[0]), name)
		}
	}
}

// While the daemon is down, a job waits before its second opcode. The cancel reaches the job
// there.
func TestAWaitingJobIsCanceledAtOnce(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	work, open := d.gate("gate")
	id := d.dial().submit(work, command("touch", d.path("never")))
	d.dial().awaitStatus(id, "running")
	d.kill()
	open()
	require.Eventually(t, func() bool { return strings.Contains(d.jobFile(id), `"status": "waiting"`) }, patience, 5*time.Millisecond)
	require.NoError(t, signalTERM(d.processOf(id)))
	require.Eventually(t, func() bool { return strings.Contains(d.jobFile(id), `"Job canceled by request"`) }, patience, 5*time.Millisecond)
	d.start()
	require.Equal(t, []string{"success", "canceled"}, d.dial().await(id).Statuses)
	require.NoFileExists(t, d.path("never"))
}

func TestPriority(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	require.Equal(t, 0, d.stop())
	config, err := os.ReadFile(d.path("lib", "config.data"))
	require.NoError(t, err)
	one := strings.Replace(string(config), `"max_running_jobs":20`, `"max_running_jobs":1`, 1)
	require.NoError(t, os.WriteFile(d.path("lib", "config.data"), []byte(one), 0o640))
	d.start()
	c := d.dial()
	slot, open := d.gate("slot")
	c.submit(slot)
	trace := d.path("trace")
	first := c.submit(command("sh", "-c", "echo first >> "+trace))
	second := c.submit(command("sh", "-c", "echo second >> "+trace))
	done, text := c.ask("ChangeJobPriority", second, -5)
	require.True(t, done)
	require.Equal(t, fmt.Sprintf("Priorities of pending opcodes for job %d have been changed to -5", second), text)
	require.Contains(t, d.jobFile(second), `"priority": -5}`)
	done, text = c.ask("ChangeJobPriority", second, 20)
	require.False(t, done)
	require.Contains(t, text, "not between -20 and 19")
	open()
	require.Equal(t, "success", c.await(first).Status)
	c.await(second)
	ran, err := os.ReadFile(trace)
	require.NoError(t, err)
	require.Equal(t, "second\nfirst\n", string(ran))
	done, _ = c.ask("ChangeJobPriority", second, 0)
	require.False(t, done, "it has ended")
}

// A hold outlives kill -9. A held job does not start, and a running one begins no further opcode. The release lets both
// go on.
func TestHold(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	ran, waits := d.path("ran"), d.path("waits")
	running := c.submit(work, command("touch", ran))
	c.awaitStatus(running, "running")
	done, text := c.ask("LockstepHoldJob", running, true)
	require.True(t, done, text)
	slot, openSlot := d.gate("slot")
	queued := c.submit(slot, command("touch", waits))
	done, text = c.ask("LockstepHoldJob", queued, true)
	require.True(t, done, text)
	openSlot()
	d.kill()
	d.start()
	c = d.dial()
	open()
	var why struct {
		Reasons []struct{ Kind, By string }
	}
	require.Eventually(t, func() bool { // its first opcode has ended
		c.call("LockstepWhy", &why, running)
		return why.Reasons[0].Kind == "hold"
	}, patience, 5*time.Millisecond)
	require.Contains(t, why.Reasons[0].By, "uid=")
	require.NoFileExists(t, ran)
	for _, id := range []int64{running, queued} {
		done, text = c.ask("LockstepHoldJob", id, false)
		require.True(t, done, text)
		require.Equal(t, "success", c.await(id).Status)
	}
	require.FileExists(t, ran)
	require.FileExists(t, waits)
}

func TestPriorityOfARunningJob(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work, command("true"))
	c.awaitStatus(id, "running")
	done, _ := c.ask("ChangeJobPriority", id, -7)
	require.True(t, done)
	require.Eventually(t, func() bool {
		var rows [][][]int
		c.call("QueryJobs", &rows, []int64{id}, []string{"oppriority"})
		return rows[0][0][0] == 0 && rows[0][0][1] == -7
	}, patience, 5*time.Millisecond)
	open()
	require.Equal(t, "success", c.await(id).Status)
	require.NoFileExists(t, d.path("run", "luxidmessages", fmt.Sprintf("%d.prio", id)))
}

func TestArchive(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	running := c.submit(work)
	var ids []int64
	for range 5 {
		ids = append(ids, c.submit(command("true")))
	}
	for _, id := range ids {
		c.await(id)
	}
	var archived bool
	c.call("ArchiveJob", &archived, running)
	require.False(t, archived)
	c.call("ArchiveJob", &archived, ids[0])
	require.True(t, archived)
	c.call("ArchiveJob", &archived, ids[0])
	require.False(t, archived)
	require.FileExists(t, d.path("lib", "queue", "archive", "0", fmt.Sprintf("job-%d", ids[0])))
	var result [2]int
	c.call("AutoArchiveJobs", &result, 3600, 60)
	require.Equal(t, [2]int{0, 0}, result, "all are younger")
	c.call("AutoArchiveJobs", &result, -1, 60)
	require.Equal(t, [2]int{4, 0}, result)

	require.Equal(t, "success", c.query(ids[3]).Status, "archived jobs are found by their id")
	var rows [][]any
	c.call("QueryJobs", &rows, nil, []string{"id"})
	require.Len(t, rows, 1)
	c.call("QueryJobs", &rows, nil, []string{"id", "archived"})
	require.Len(t, rows, 6)
	require.Equal(t, []any{float64(running), false}, rows[0])
	require.Equal(t, []any{float64(ids[4]), true}, rows[5])
	var change [2]json.RawMessage
	c.call("WaitForJobChange", &change, ids[0], []string{"status"}, nil, nil, 1)
	require.JSONEq(t, `["success"]`, string(change[0]), "an archived job is found")
	open()
	c.await(running)

	require.Equal(t, 0, d.stop())
	d.start()
	require.Greater(t, d.dial().submit(command("true")), ids[4], "no id is used twice")
}

func TestDrainAndLimits(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start("--max-job-ops", "2", "--max-unfinished", "3", "--max-job-bytes", "2000")
	c := d.dial()
	refuse := func(class string, ops ...op) {
		t.Helper()
		err := c.Call(context.Background(), "SubmitJob", []any{ops}, nil)
		var failed *wire.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, class, failed.Class, failed)
	}
	var ok bool
	for range 2 { // a repeated change is no error
		c.call("SetDrainFlag", &ok, true)
		require.True(t, ok)
	}
	refuse("JobQueueDrainError", command("true"))
	var id int64
	c.call("SubmitJobToDrainedQueue", &id, []op{command("true")})
	d.kill()
	d.start("--max-job-ops", "2", "--max-unfinished", "3", "--max-job-bytes", "2000")
	c = d.dial()
	var values []any
	c.call("QueryConfigValues", &values, []string{"drain_flag", "cluster_name", "nosuch"})
	require.Equal(t, []any{true, "lockstep", nil}, values, "it survives the daemon")
	for range 2 {
		c.call("SetDrainFlag", &ok, false)
	}
	c.await(id)
	refuse("OpPrereqError")
	refuse("OpPrereqError", command("true"), command("true"), command("true"))
	refuse("OpPrereqError", command("echo", strings.Repeat("x", 3000)))
	work, open := d.gate("gate")
	for range 3 {
		c.submit(work)
	}
	refuse("JobQueueFull", command("true"))
	open()
	c.awaitStatus(id+3, "success")
	c.await(c.submit(command("true")))
}

func TestStatus(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	var status struct {
		PID     int              `json:"pid"`
		Jobs    map[string]int64 `json:"jobs"`
		Running []struct {
			ID      int64
			Summary []string
		} `json:"running"`
		RunSlots int `json:"run_slots"`
	}
	c.call("LockstepStatus", &status)
	require.Equal(t, d.cmd.Process.Pid, status.PID)
	require.Equal(t, map[string]int64{"running": 1}, status.Jobs)
	require.Equal(t, id, status.Running[0].ID)
	require.Equal(t, 20, status.RunSlots)
	open()
}

// Two thousand clients wait for one job. No waiting client takes a thread of the daemon.
func TestManyWait(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	const waiters = 2000
	results := make(chan error, waiters)
	for range waiters {
		w := d.dial()
		go func() {
			var change [2]json.RawMessage
			err := w.Call(context.Background(), "WaitForJobChange", []any{id, []string{"status"}, []string{"running"}, 1 << 30, 80}, &change)
			if err == nil && string(change[0]) != `["success"]` {
				err = fmt.Errorf("told %s", change[0])
			}
			results <- err
		}()
	}
	// A query behind all waiting clients, on a separate connection, is answered.
	require.Eventually(t, func() bool { return d.threads() > 0 && c.query(id).Status == "running" }, patience, 5*time.Millisecond)
	require.Less(t, d.threads(), 200)
	open()
	for range waiters {
		require.NoError(t, <-results)
	}
}

func (d *daemon) threads() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	require.NoError(d.t, err)
	_, after, _ := strings.Cut(string(status), "Threads:")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
	require.NoError(d.t, err)
	return n
}

func TestSystemdIsTold(t *testing.T) {
	d := newDaemon(t)
	path := d.path("notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer socket.Close()
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(patience)))
	heard := make(chan string, 10_000)
	go func() { // systemd always reads: without that the tenth message would block the daemon
		defer close(heard)
		for buffer := make([]byte, 100); ; {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			heard <- string(buffer[:n])
		}
	}()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "300000")
	d.start()
	hear := func(want string) {
		t.Helper()
		for message := range heard {
			if message == want {
				return
			}
		}
		require.Fail(t, "systemd was not told "+want)
	}
	hear("READY=1")
	hear("WATCHDOG=1")
	work, open := d.gate("gate")
	id := d.dial().submit(work)
	d.dial().awaitStatus(id, "running")
	require.Equal(t, 0, d.stop())
	hear("STOPPING=1")
	require.False(t, isGone(strconv.Itoa(d.processOf(id))), "jobs go on")
	require.FileExists(t, d.path("run", "socket", "ganeti-query"), "systemd keeps the socket for the next daemon")
	open()
}
