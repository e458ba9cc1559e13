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

// outputAtAnotherNode is a standby whose clients read the output of jobs that run at the master.
type outputAtAnotherNode struct {
	*user
	standby *member
	last    int    // what seq counts to
	wanted  []byte // its output
}

// command is an opcode that runs seq.
func (o *outputAtAnotherNode) command(kept bool) op {
	return op{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"seq", strconv.Itoa(o.last)}, "keep_output": kept}
}

func (o *outputAtAnotherNode) compare(got []byte) error {
	if !bytes.Equal(o.wanted, got) {
		return fmt.Errorf("%d of %d bytes", len(got), len(o.wanted))
	}
	return nil
}

// byCommand reads output with the command line program.
func (o *outputAtAnotherNode) byCommand(args ...string) error {
	out, stderr, code := o.standby.tryCLI(args...)
	if code != 0 {
		return fmt.Errorf("lockstep %q: status %d: %s", args, code, stderr)
	}
	return o.compare([]byte(out))
}

// followed reads the output of a followed job, and meanwhile the daemon of the follower's node crashes.
func (o *outputAtAnotherNode) followed() error {
	t := o.c.t
	var ids []int64
	o.must("LockstepSubmitJobs", &ids, []any{map[string]any{"followed": true, "ops": []op{o.command(false)}}})
	var got []byte
	var at outflow.Position
	crashed := false
	socket := persistence.SocketPath(o.standby.path("run"), persistence.OutputSocket)
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
				o.standby.crash()
				o.standby.start()
			}
		}
		return true
	}
	deadline := time.Now().Add(2 * patience)
	for !read() {
		if time.Now().After(deadline) {
			return o.compare(got)
		}
	}
	require.True(t, crashed)
	return errors.Join(o.compare(got), o.succeeds(ids[0]))
}

func (o *outputAtAnotherNode) succeeds(id int64) error {
	o.awaitStatus(id, "success", "error")
	if status := o.status(id); status != "success" {
		return fmt.Errorf("job %d: %s", id, status)
	}
	return nil
}

// kept reads at each node what the master has kept of a job's output.
func (o *outputAtAnotherNode) kept() error {
	id := o.submit(o.command(true))
	failed := errors.Join(o.succeeds(id), o.byCommand("log", strconv.FormatInt(id, 10)))
	if failed != nil {
		return failed
	}
	t, size := o.c.t, int64(len(o.wanted))
	for _, m := range o.c.nodes {
		part := end.Kept{From: size - 100_000, To: size + 1}
		conn, err := end.Dial(t.Context(), persistence.SocketPath(m.path("run"), persistence.OutputSocket), end.Hello{Job: id, Kept: &part})
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		got, buffer := []byte{}, make([]byte, outflow.FrameMax)
		f, err := outflow.ReadFrame(conn, buffer)
		for ; err == nil && !f.Ends(); f, err = outflow.ReadFrame(conn, buffer) {
			got = append(got, f.Output...)
		}
		if err := errors.Join(err, conn.Close()); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		require.True(t, bytes.Equal(o.wanted[part.From:], got), "%s: %d bytes", m.name, len(got))
		require.Equal(t, outflow.Position{Stdout: size}, f.At)
	}
	return nil
}

// A follower at another node than the master gets all output of a command, also over a crash of its node's daemon. What the master keeps
// is read at any node. An election ends what runs, so what fails beside one is done again.
func TestClusterOutputAtAnotherNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	const last = 750_000
	steps := []func(*outputAtAnotherNode) error{
		func(o *outputAtAnotherNode) error { return o.byCommand("run", "--", "seq", strconv.Itoa(last)) },
		(*outputAtAnotherNode).followed,
		(*outputAtAnotherNode).kept,
	}
	for i, step := range steps {
		eventuallyWithin(t, 4*patience, fmt.Sprintf("step %d", i), func() error {
			before := c.elections()
			o := &outputAtAnotherNode{user: &user{c: c, at: 0}, standby: c.others(c.master())[0], last: last, wanted: numbers(last)}
			err := step(o)
			if err != nil && c.elections() == before {
				require.NoError(t, err, "without an election")
			}
			return err
		})
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

// The node of a follower loses its network, and no connection ends, as with a power loss. The command goes on without the follower long
// before TCP gives the connection up. An election ends what runs, so what fails beside one is done again.
func TestClusterAFollowerWhoseNodeIsCutOff(t *testing.T) {
	t.Parallel()
	c, network := newSplitCluster(t, 3)
	try := func() error {
		master := c.master()
		standby := c.others(master)[0]
		u := c.user(indexOf(c, master))
		defer u.close()
		var ids []int64
		command := op{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"seq", "3000000"}}
		u.must("LockstepSubmitJobs", &ids, []any{map[string]any{"followed": true, "ops": []op{command}}})
		socket := persistence.SocketPath(standby.path("run"), persistence.OutputSocket)
		conn, err := end.Dial(t.Context(), socket, end.Hello{Job: ids[0], Follows: true})
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		if _, _, err = end.NewReader(conn, outflow.Position{}).Next(); err != nil {
			return err
		}
		cut := time.Now()
		network.disconnect(indexOf(c, standby))
		standby.up = false // queries must not use it
		defer func() {
			network.reconnect(indexOf(c, standby))
			standby.up = true
		}()
		status := ""
		eventuallyWithin(t, 5*patience, "the command goes on", func() error {
			if status = u.status(ids[0]); status != "success" && status != "error" {
				return fmt.Errorf("it is %q", status)
			}
			return nil
		})
		if status == "error" {
			return errors.New("the job has failed")
		}
		t.Logf("the job ended %s after the cut", time.Since(cut))
		return nil
	}
	eventuallyWithin(t, 4*patience, "the command ends", func() error {
		before := c.elections()
		err := try()
		if err != nil && c.elections() == before {
			require.NoError(t, err, "without an election")
		}
		return err
	})
}
