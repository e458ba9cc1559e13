package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// All output of a job that asks for it is in files of the data directory, and the result vouches for it. The daemon may be killed
// meanwhile. Other jobs make no files.
func TestAJobsOutputIsKept(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.await(c.submit(command("echo", "no")))
	require.NoDirExists(t, d.path("lib", "output"))
	begun, goOn := d.path("begun"), d.path("go")
	id := c.submit(command("sh", "-c", `seq 300000; : > `+begun+`; while ! [ -e `+goOn+` ]; do sleep 0.02; done; seq 300000 >&2; exit 3`).with("keep_output", true))
	require.Eventually(t, func() bool { return exists(begun) }, patience, 5*time.Millisecond)
	d.kill()
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	d.start()
	j := d.dial().await(id)
	var class, text string
	var details struct {
		ExitStatus int `json:"exit_status"`
		Kept       map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(j.Results[0], &[]any{&class, &[]any{&text, &details}}))
	require.Equal(t, 3, details.ExitStatus)
	for _, stream := range []string{"stdout", "stderr"} {
		content, err := os.ReadFile(d.path("lib", "output", itoa(id), "0."+stream))
		require.NoError(t, err)
		require.Len(t, content, 1988895)
		sum := sha256.Sum256(content)
		require.JSONEq(t, `{"bytes": 1988895, "sha256": "`+hex.EncodeToString(sum[:])+`", "missing": 0}`, string(details.Kept[stream]))
	}
}

// Files of another job with the same id are no output of a job, as after an older copy of the data directory was put back: neither of a job
// that keeps nothing, nor in place of what a job has kept.
func TestTheKeptOutputOfAnotherJob(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"log_limit": 64000})
	numbers := command("seq", "300000")
	other := bytes.Repeat([]byte("other\n"), 500_000)
	plain, kept := c.submit(numbers), c.submit(numbers.with("keep_output", true))
	died := c.submit(command("sh", "-c", "seq 300000; kill -9 $PPID").with("keep_output", true))
	for _, id := range []int64{plain, kept, died} {
		c.await(id)
	}
	require.NoError(t, os.Mkdir(d.path("lib", "output", itoa(plain)), 0o700))
	require.NoError(t, os.WriteFile(d.path("lib", "output", itoa(plain), "0.stdout"), other, 0o600))
	out, code := d.client("log", itoa(plain))
	require.Equal(t, 125, code)
	require.NotContains(t, out, "other")

	out, code = d.client("log", itoa(kept))
	require.Zero(t, code)
	require.Len(t, out, 1988895)
	require.NoError(t, os.WriteFile(d.path("lib", "output", itoa(kept), "0.stdout"), other, 0o600))
	out, code = d.client("log", itoa(kept))
	require.Equal(t, 125, code)
	require.NotContains(t, out, "other")

	out, code = d.client("log", itoa(died))
	require.Equal(t, 125, code, "its end is not known")
	require.Contains(t, out, "\n150000\n", "the files have what the log had not yet")
	require.NoError(t, os.WriteFile(d.path("lib", "output", itoa(died), "0.stdout"), other, 0o600))
	require.NoError(t, os.WriteFile(d.path("lib", "output", itoa(died), "submitted"), []byte("[1, 2]\n"), 0o600))
	out, code = d.client("log", itoa(died))
	require.Equal(t, 125, code)
	require.NotContains(t, out, "other")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Kept output leaves room on the disk for the files of jobs, also for that of a job whose output takes much room in its log: the job ends,
// its result says why output is missing, and other jobs run.
func TestKeptOutputLeavesRoomForTheQueue(t *testing.T) {
	t.Parallel()
	for size, most := range map[string]int64{"4m": 0, "80m": 16 << 20} {
		t.Run(size, func(t *testing.T) {
			d := newDaemon(t)
			d.smallDataDisk(size)
			d.start()
			c := d.dial()
			c.call("LockstepSetSettings", nil, map[string]any{"log_limit": 64000})
			// The pauses let the log be written again and again.
			script := "for i in 1 2 3 4 5 6 7 8; do head -c 2500000 /dev/zero; sleep 0.1; done"
			j := c.await(c.submit(command("sh", "-c", script).with("keep_output", true)))
			require.Equal(t, "success", j.Status)
			var result struct {
				Kept struct {
					Stdout struct{ Bytes, Missing int64 }
					Reason string
				}
			}
			require.NoError(t, json.Unmarshal(j.Results[0], &result))
			require.EqualValues(t, 20_000_000, result.Kept.Stdout.Bytes+result.Kept.Stdout.Missing)
			require.GreaterOrEqual(t, result.Kept.Stdout.Bytes, most*9/10)
			require.LessOrEqual(t, result.Kept.Stdout.Bytes, most)
			require.Contains(t, result.Kept.Reason, "the disk is almost full")
			require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
		})
	}
}
