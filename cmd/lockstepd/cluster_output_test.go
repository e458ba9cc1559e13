package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
	"lockstep/persistence"
)

// numbers is the output of seq.
func numbers(last int) []byte {
	var b []byte
	for n := 1; n <= last; n++ {
		b = append(strconv.AppendInt(b, int64(n), 10), '\n')
	}
	return b
}

// A follower at another node than the master gets all output of a command, also over a crash of its node's daemon.
func TestClusterOutputAtAnotherNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	const last = 750_000
	wanted := numbers(last)
	standby := c.others(c.master())[0]
	requireAll := func(args ...string) {
		t.Helper()
		out := standby.cli(args...)
		require.True(t, bytes.Equal(wanted, []byte(out)), "%d of %d bytes", len(out), len(wanted))
	}
	requireAll("run", "--", "seq", strconv.Itoa(last))

	u := &user{c: c, at: 0}
	var ids []int64
	seq := op{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"seq", strconv.Itoa(last)}}
	u.must("LockstepSubmitJobs", &ids, []any{map[string]any{"followed": true, "ops": []op{seq}}})
	var got []byte
	var at outflow.Position
	crashed := false
	socket := persistence.SocketPath(standby.path("run"), persistence.OutputSocket)
	// read reads over one connection, and reports whether the output has ended.
	read := func() bool {
		conn, err := end.Dial(t.Context(), socket, end.Hello{Job: ids[0], Follows: true, At: at})
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		r := end.NewReader(conn, at)
		for !r.Ended {
			f, gap, err := r.Next()
			if err != nil {
				return false
			}
			require.Zero(t, gap)
			got, at = append(got, f.Output...), r.At
			if !crashed && len(got) > 1<<20 {
				crashed = true
				standby.crash()
				standby.start()
			}
		}
		return true
	}
	deadline := time.Now().Add(2 * patience)
	for !read() {
		require.True(t, time.Now().Before(deadline), "%d of %d bytes", len(got), len(wanted))
	}
	require.True(t, crashed)
	require.True(t, bytes.Equal(wanted, got), "%d of %d bytes", len(got), len(wanted))
	u.awaitStatus(ids[0], "success")

	// What the master keeps is read at any node.
	seq["keep_output"] = true
	kept := u.submit(seq)
	u.awaitStatus(kept, "success")
	requireAll("log", strconv.FormatInt(kept, 10))
	size := int64(len(wanted))
	for _, m := range c.nodes {
		part := end.Kept{From: size - 100_000, To: size + 1}
		conn, err := end.Dial(t.Context(), persistence.SocketPath(m.path("run"), persistence.OutputSocket), end.Hello{Job: kept, Kept: &part})
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		got, buffer := []byte{}, make([]byte, outflow.FrameMax)
		f, err := outflow.ReadFrame(conn, buffer)
		for ; err == nil && !f.Ends(); f, err = outflow.ReadFrame(conn, buffer) {
			got = append(got, f.Output...)
		}
		require.NoError(t, errors.Join(err, conn.Close()), m.name)
		require.True(t, bytes.Equal(wanted[part.From:], got), "%s: %d bytes", m.name, len(got))
		require.Equal(t, outflow.Position{Stdout: size}, f.At)
	}
}

// The master and the job's process die while a command runs. Who follows the job at another node has what was sent, is told that output
// may be missing and how the job ended, and exits with 125.
func TestClusterAFollowedJobWhoseNodeDies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	standby := c.others(master)[0]
	const last = 300_000
	stop := filepath.Join(c.shared, "stop")
	defer func() { require.NoError(t, os.WriteFile(stop, nil, 0o600)) }()
	script := fmt.Sprintf("seq %d; while [ ! -e %s ]; do sleep 0.02; done", last, stop)
	run := standby.command(standby.lockstep(), "run", "--", "sh", "-c", script)
	run.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+standby.path("run", "socket", "ganeti-query"))
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	wanted := numbers(last)
	got := make([]byte, len(wanted))
	_, err = io.ReadFull(out, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(wanted, got))
	process := master.processOf(1)
	master.crash()
	require.NoError(t, syscall.Kill(process, syscall.SIGKILL))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Empty(t, rest)
	var exit *exec.ExitError
	require.ErrorAs(t, run.Wait(), &exit)
	require.Equal(t, 125, exit.ExitCode(), stderr.String())
	require.Contains(t, stderr.String(), "output may be missing")
	t.Log(stderr.String())
}
