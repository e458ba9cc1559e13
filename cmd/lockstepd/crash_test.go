package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An acknowledged job survives a crash of the daemon at any time, and runs once.
func TestAJobOutlivesACrashRightAfterItsSubmission(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	trace := d.path("trace")
	var ids []int64
	for range 5 {
		d.start()
		ids = append(ids, d.dial().submit(command("sh", "-c", "echo $LOCKSTEP_JOB_ID >> "+trace)))
		d.kill()
	}
	d.start()
	c := d.dial()
	ended := 0
	for _, id := range ids {
		j := c.await(id)
		if j.Status == "success" {
			ended++
			continue
		}
		// The crash may have cut off its start, before it was permitted to act.
		require.Contains(t, string(j.Results[0]), "detected death")
	}
	ran, err := os.ReadFile(trace)
	if ended > 0 {
		require.NoError(t, err)
	}
	counts := map[string]int{}
	for _, id := range strings.Fields(string(ran)) {
		counts[id]++
		require.Equal(t, 1, counts[id], "job %s ran twice", id)
	}
	require.Len(t, counts, ended)
}

func TestJobsGoOnWithoutADaemonAndAreAdopted(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	gate := d.path("gate")
	wait := "while [ ! -e " + gate + " ]; do sleep 0.02; done"
	c := d.dial()
	short := c.submit(command("sh", "-c", wait+"; echo done"))
	long := c.submit(command("sh", "-c", wait), command("echo", "second"))
	both := func() bool { return c.query(short).Status == "running" && c.query(long).Status == "running" }
	require.Eventually(t, both, patience, 10*time.Millisecond)
	d.kill()
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Eventually(t, func() bool { return strings.Contains(d.jobFile(short), `"end_timestamp": [`) }, patience, 10*time.Millisecond)
	// The second opcode needs a daemon's permission.
	require.Eventually(t, func() bool { return strings.Contains(d.jobFile(long), `"status": "waiting"`) }, patience, 10*time.Millisecond)

	d.start()
	c = d.dial()
	require.Equal(t, []string{"done"}, c.await(short).lines())
	j := c.await(long)
	require.Equal(t, "success", j.Status)
	require.Equal(t, []string{"second"}, j.lines())
}

func (d *daemon) jobFile(id int64) string {
	content, err := os.ReadFile(d.path("lib", "queue", fmt.Sprintf("job-%d", id)))
	require.NoError(d.t, err)
	return string(content)
}

// When a job process dies, all processes of its job are killed, whatever session they have
// moved to. Opcodes that have succeeded stay successful.
func TestTheDeathOfAJobProcess(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"daemon up": false, "daemon down": true} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			d.start()
			c := d.dial()
			id := c.submit(command("true"), command("sh", "-c", "setsid sleep 300 & echo $!; wait"))
			var child string
			require.Eventually(t, func() bool {
				lines := c.query(id).lines()
				if len(lines) == 1 {
					child = lines[0]
				}
				return child != ""
			}, patience, 10*time.Millisecond)
			if down {
				d.kill()
			}
			require.NoError(t, syscall.Kill(d.processOf(id), syscall.SIGKILL))
			if down {
				d.start()
				c = d.dial()
			}
			j := c.await(id)
			require.Equal(t, []string{"success", "error"}, j.Statuses)
			require.Contains(t, string(j.Results[1]), fmt.Sprintf("detected death of job %d", id))
			require.True(t, isGone(child), "a process of the dead job still runs")
			locks, err := filepath.Glob(d.path("run", "livelocks", "job_*"))
			require.NoError(t, err)
			require.Empty(t, locks)
		})
	}
}

// processOf reads a job's pid from its file.
func (d *daemon) processOf(id int64) int {
	_, after, found := strings.Cut(d.jobFile(id), `"process_id": `)
	require.True(d.t, found)
	var pid int
	_, err := fmt.Sscanf(after, "%d", &pid)
	require.NoError(d.t, err)
	return pid
}

func TestAnUnreadableJobFileIsSetAside(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(command("true"))
	c.await(id)
	require.Equal(t, 0, d.stop())
	path := d.path("lib", "queue", fmt.Sprintf("job-%d", id))
	require.NoError(t, os.WriteFile(path, []byte(`{"id": 1, "ops": [{"in`), 0o640))
	above := d.path("lib", "queue", "job-99")
	require.NoError(t, os.WriteFile(above, []byte(`{"id": 99, "ops": []}`), 0o640))

	d.start()
	for _, name := range []string{"job-1", "job-99"} {
		kept := d.path("lib", "queue", "quarantine", name)
		require.Eventually(t, func() bool { _, err := os.Stat(kept); return err == nil }, patience, 10*time.Millisecond)
	}
	require.NoFileExists(t, path)
	require.Eventually(t, func() bool { return strings.Count(d.logged(), "quarantine") >= 2 }, patience, 10*time.Millisecond)
	require.EqualValues(t, 2, d.dial().submit(command("true")), "no id is used twice")
}

func TestSecretsDoNotOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	gate := d.path("gate")
	for range 20 { // fills all run slots
		c.submit(command("sh", "-c", "while [ ! -e "+gate+" ]; do sleep 0.02; done"))
	}
	id := c.submit(command("true").with("secret_env", op{"SECRET": "sesame"}))
	d.kill()
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	d.start()
	j := d.dial().await(id)
	require.Equal(t, "error", j.Status)
	require.Contains(t, string(j.Results[0]), "Submit it again")
}
