package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keptOf is what a file in the kept output of a job has.
func (d *daemon) keptOf(id int64, name string) []byte {
	d.t.Helper()
	content, err := os.ReadFile(filepath.Join(d.path("lib", "output", itoa(id)), name))
	require.NoError(d.t, err)
	return content
}

// stdoutOf is what a command of the command line writes to its standard output.
func stdoutOf(t *testing.T, cmd *exec.Cmd, code int) []byte {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	require.Equal(t, code, cmd.ProcessState.ExitCode())
	return out
}

// Kept output has files for each try. Who follows the job, and who reads its output later, gets that of all tries, byte for byte; also if
// the daemon is killed between two tries, and after the archive.
func TestTheOutputOfEachTryIsKept(t *testing.T) {
	t.Parallel()
	for name, kills := range map[string]bool{"the daemon lives": false, "it is killed between two tries": true} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			d.start()
			c := d.dial()
			c.call("LockstepSetSettings", nil, map[string]any{"log_limit": 64000})
			run := d.clientCommand("run", "--keep-output", "--retry", "3", "--retry-delay", "2s", "--",
				"sh", "-c", `echo $LOCKSTEP_TRY; seq 450000; seq 3 >&2; [ $LOCKSTEP_TRY = 3 ]`)
			var got bytes.Buffer
			run.Stdout = &got
			require.NoError(t, run.Start())
			const id = 1
			if kills {
				require.Eventually(t, func() bool { return exists(d.path("lib", "output", itoa(id), "0.stdout")) }, patience, 5*time.Millisecond)
				c.awaitTry(id, 2)
				d.kill()
				d.start()
				c = d.dial()
			}
			require.NoError(t, run.Wait())
			numbers, err := exec.Command("seq", "450000").Output()
			require.NoError(t, err)
			var want []byte
			for try, file := range []string{"0.stdout", "0.try2.stdout", "0.try3.stdout"} {
				ofTry := append([]byte(fmt.Sprintln(try+1)), numbers...)
				require.True(t, bytes.Equal(ofTry, d.keptOf(id, file)), file)
				want = append(want, ofTry...)
			}
			require.Equal(t, "1\n2\n3\n", string(d.keptOf(id, "0.try2.stderr")))
			require.True(t, bytes.Equal(want, got.Bytes()), "run has %d bytes of %d", got.Len(), len(want))
			got.Reset()
			got.Write(stdoutOf(t, d.clientCommand("log", itoa(id)), 0))
			require.True(t, bytes.Equal(want, got.Bytes()), "log has %d bytes of %d", got.Len(), len(want))
			out, code := d.client("info", itoa(id))
			require.Zero(t, code)
			require.Contains(t, out, "3.0 MB of stdout and 6 B of stderr, in "+d.path("lib", "output", itoa(id)))
			var archived bool
			c.call("ArchiveJob", &archived, id)
			require.True(t, archived)
			got.Reset()
			got.Write(stdoutOf(t, d.clientCommand("log", itoa(id)), 0))
			require.True(t, bytes.Equal(want, got.Bytes()), "log of the archived job has %d bytes of %d", got.Len(), len(want))
		})
	}
}

// The files of a try whose process has died have a beginning of its output, as those of any process. The next try does not remove them, and
// its own output follows.
func TestTheKeptOutputOfALostTry(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"log_limit": 64000})
	const script = `seq 300000; [ $LOCKSTEP_TRY = 2 ] || kill -9 $PPID`
	id := c.submit(retried(map[string]any{"times": 1, "delay": 0.01, "on": []any{"lost"}}, script).with("keep_output", true))
	require.Equal(t, "success", c.await(id).Status)
	first, second := d.keptOf(id, "0.stdout"), d.keptOf(id, "0.try2.stdout")
	require.Len(t, second, 1988895)
	require.True(t, bytes.HasPrefix(second, first))
	require.Greater(t, len(first), 1_000_000)
	got := stdoutOf(t, d.clientCommand("log", itoa(id)), 125) // the end of the first try is not known
	require.True(t, bytes.Equal(append(first, second...), got), "%d bytes of %d and %d", len(got), len(first), len(second))
}

// The output of a try is on the node that ran it. When the master is killed between two tries, the next one is made and kept elsewhere; the
// output of both is there at each node when the former master is back.
func TestClusterKeepsTheOutputOfEachTry(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	client := master.dial()
	client.call("LockstepSetSettings", nil, map[string]any{"log_limit": 64000})
	id := client.submit(retried(map[string]any{"times": 2, "delay": 8}, `echo $LOCKSTEP_TRY; seq 300000; [ $LOCKSTEP_TRY = 2 ]`).
		with("keep_output", true))
	client.awaitTry(id, 2)
	master.crash()
	next := c.master()
	j := next.dial().await(id)
	require.Equal(t, "success", j.Status, "%s", j.Results)
	numbers, err := exec.Command("seq", "300000").Output()
	require.NoError(t, err)
	first, second := append([]byte("1\n"), numbers...), append([]byte("2\n"), numbers...)
	require.True(t, bytes.Equal(second, next.keptOf(id, "0.try2.stdout")))
	out := stdoutOf(t, next.clientCommand("log", itoa(id)), 125)
	require.True(t, bytes.HasSuffix(out, second), "the first try is missing, and the second is there")
	master.start()
	require.True(t, bytes.Equal(first, master.keptOf(id, "0.stdout")))
	for _, m := range c.nodes {
		var got []byte
		require.Eventually(t, func() bool {
			cmd := m.clientCommand("log", itoa(id))
			got, err = cmd.Output()
			return err == nil
		}, patience, 50*time.Millisecond, m.name)
		require.True(t, bytes.Equal(slices.Concat(first, second), got), "%s: %d bytes", m.name, len(got))
	}
}
