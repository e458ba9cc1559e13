package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowProgram is a job program that loads until the test opens it.
type slowProgram struct {
	d *daemon
}

func (d *daemon) slowProgram() slowProgram {
	d.t.Helper()
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s.$1\nwhile [ ! -e %s ]; do sleep 0.02; done\nexec %s \"$@\"\n",
		d.path("loading"), d.path("loaded"), filepath.Join(programs, "lockstep-job"))
	require.NoError(d.t, os.WriteFile(d.path("slow-job"), []byte(script), 0o755))
	return slowProgram{d}
}

func (p slowProgram) start() *client {
	p.d.start("--job-program", p.d.path("slow-job"))
	return p.d.dial()
}

// awaitLoading waits until the process of a job loads, and returns its pid.
func (p slowProgram) awaitLoading(id int64) (pid string) {
	p.d.t.Helper()
	require.Eventually(p.d.t, func() bool {
		line, _ := os.ReadFile(fmt.Sprintf("%s.%d", p.d.path("loading"), id))
		var complete bool
		pid, complete = strings.CutSuffix(string(line), "\n")
		return complete
	}, patience, time.Millisecond)
	return pid
}

func (p slowProgram) load() {
	require.NoError(p.d.t, os.WriteFile(p.d.path("loaded"), nil, 0o600))
}

func (c *client) reasonKinds(id int64) (kinds []string) {
	c.t.Helper()
	var why struct{ Reasons []struct{ Kind string } }
	c.call("LockstepWhy", &why, id)
	for _, r := range why.Reasons {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// A hold calls off a start whose process is loading. The job is pending again with its secrets, and runs after its
// release.
func TestAHoldCallsOffAStart(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(d *daemon, program slowProgram, c *client) *client{
		"the process loads on": func(_ *daemon, _ slowProgram, c *client) *client { return c },
		"kill -9 of the daemon": func(d *daemon, program slowProgram, _ *client) *client {
			d.kill()
			return program.start()
		},
		"a second hold": func(_ *daemon, _ slowProgram, c *client) *client {
			done, text := c.ask("LockstepHoldJob", 1, true)
			require.True(c.t, done)
			require.Equal(c.t, "Job 1 is held", text)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			program := d.slowProgram()
			c := program.start()
			ran := d.path("ran")
			id := c.submit(command("sh", "-c", "echo $WORD > "+ran).with("env", op{"WORD": "done"}))
			pid := program.awaitLoading(id)
			done, text := c.ask("LockstepHoldJob", id, true)
			require.True(t, done)
			require.Equal(t, "Job 1 is held", text)
			c = meanwhile(d, program, c)
			program.load()
			require.Eventually(t, func() bool { return isGone(pid) }, patience, 5*time.Millisecond)
			require.Eventually(t, func() bool { return c.query(id).Status == "queued" && c.reasonKinds(id)[0] == "hold" }, patience, 5*time.Millisecond)
			require.Equal(t, "success", c.await(c.submit(command("true"))).Status, "other jobs start")
			require.NoFileExists(t, ran)
			require.NotContains(t, d.logged(), "cannot be started")
			done, _ = c.ask("LockstepHoldJob", id, false)
			require.True(t, done)
			require.Equal(t, "success", c.await(id).Status)
			content, err := os.ReadFile(ran)
			require.NoError(t, err)
			require.Equal(t, "done\n", string(content))
		})
	}
}

// A release, or a cancel, that comes while the process of the start that was called off still loads.
func TestOrdersWhileAStartIsCalledOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		args   []any
		status string
	}{
		"release": {"LockstepHoldJob", []any{1, false}, "success"},
		"cancel":  {"CancelJob", []any{1, false}, "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			program := d.slowProgram()
			client := program.start()
			id := client.submit(command("touch", d.path("ran")))
			program.awaitLoading(id)
			done, _ := client.ask("LockstepHoldJob", id, true)
			require.True(t, done)
			go program.load()
			done, _ = client.ask(c.method, c.args...)
			require.True(t, done)
			require.Equal(t, c.status, client.await(id).Status)
		})
	}
}

// An acknowledged PAUSE or REJECT rule calls off a start whose process is loading.
func TestARuleCallsOffAStart(t *testing.T) {
	t.Parallel()
	for action, status := range map[string]string{"PAUSE": "queued", "REJECT": "canceled"} {
		t.Run(action, func(t *testing.T) {
			d := newDaemon(t)
			program := d.slowProgram()
			c := program.start()
			ran := d.path("ran")
			id := c.submit(command("touch", ran))
			pid := program.awaitLoading(id)
			var rule string
			c.call("ReplaceFilter", &rule, nil, 0, [][]any{{"jobid", []any{"=", "id", id}}}, action, []any{})
			program.load()
			require.Eventually(t, func() bool { return isGone(pid) }, patience, 5*time.Millisecond)
			require.Eventually(t, func() bool { return c.query(id).Status == status }, patience, 5*time.Millisecond)
			require.Equal(t, "success", c.await(c.submit(command("true"))).Status, "other jobs start")
			require.NoFileExists(t, ran)
			c.call("DeleteFilter", nil, rule)
			if action == "PAUSE" {
				require.Equal(t, "success", c.await(id).Status)
				require.FileExists(t, ran)
			}
		})
	}
}

// After the answer to a PAUSE or REJECT rule no job of it begins an opcode. One that has begun did so before the answer.
func TestRulesCrossStarts(t *testing.T) {
	for _, action := range []string{"PAUSE", "REJECT"} {
		t.Run(action, func(t *testing.T) {
			d := newDaemon(t)
			d.start()
			c := d.dial()
			answered := map[int64]time.Time{}
			for range 100 {
				id := c.submit(command("sleep", "0.2"))
				var rule string
				c.call("ReplaceFilter", &rule, nil, 0, [][]any{{"jobid", []any{"=", "id", id}}}, action, []any{})
				answered[id] = time.Now()
			}
			require.Equal(t, "success", c.await(c.submit(command("sleep", "0.5"))).Status)
			late, never := 0, 0
			for id, at := range answered {
				switch began := c.began(id); {
				case began.IsZero():
					never++
				case began.After(at):
					late++
					t.Logf("job %d began %v after the answer", id, began.Sub(at))
				}
			}
			t.Logf("of %d jobs %d never began, %d began after the answer", len(answered), never, late)
			require.Zero(t, late)
			require.Positive(t, never)
		})
	}
}

// began is when the first opcode of a job has begun; zero: it has not.
func (c *client) began(id int64) time.Time {
	c.t.Helper()
	var rows [][][]json.RawMessage
	c.call("QueryJobs", &rows, []int64{id}, []string{"opexec"})
	var at [2]int64
	if json.Unmarshal(rows[0][0][0], &at) != nil || at[0] == 0 {
		return time.Time{}
	}
	return time.Unix(at[0], at[1]*1000)
}

// crossing is how a hold or a rule ended that crossed with the start of a job.
type crossing struct{ plain, begun, may, ended, late int }

// judge counts an answer. The opcode of a job that the answer does not name never executes; one that has begun did so before the answer.
func (x *crossing) judge(t *testing.T, c *client, id int64, answered time.Time, done bool, text string) {
	t.Helper()
	began := c.began(id)
	switch {
	case strings.Contains(text, "has begun"):
		x.begun++
	case strings.Contains(text, "may still begin"):
		x.may++
		return
	case !done:
		x.ended++
	default:
		x.plain++
		if !began.IsZero() {
			x.late++
			t.Logf("job %d began %v after the answer %q", id, began.Sub(answered), text)
		}
		return
	}
	if began.After(answered) {
		x.late++
		t.Logf("job %d began %v after the answer %q", id, began.Sub(answered), text)
	}
}

// After the answer to a hold a job begins nothing, unless the answer says so.
func TestHoldsCrossStarts(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	var x crossing
	type held struct {
		id       int64
		answered time.Time
		done     bool
		text     string
	}
	var all []held
	for range 100 {
		h := held{id: c.submit(command("sleep", "0.2"))}
		h.done, h.text = c.ask("LockstepHoldJob", h.id, true)
		h.answered = time.Now()
		all = append(all, h)
	}
	// What the daemon and the processes had begun is over when a job that was submitted later has run.
	require.Equal(t, "success", c.await(c.submit(command("sleep", "0.5"))).Status)
	for _, h := range all {
		x.judge(t, c, h.id, h.answered, h.done, h.text)
	}
	t.Logf("%+v", x)
	require.Zero(t, x.late)
	require.Zero(t, x.may)
	require.Positive(t, x.plain)
}
