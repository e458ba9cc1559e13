package forkserver

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// has reports whether the memory that a process can write has the bytes.
func has(t *testing.T, pid int, secret string) (found bool) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Skipf("NOT RUN: the memory of another process cannot be read: %v", err)
	}
	defer memory.Close()
	regions := 0
	for line := range strings.Lines(string(maps)) {
		var start, end int64
		var modes string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &modes); err != nil || !strings.HasPrefix(modes, "rw") {
			continue
		}
		content := make([]byte, end-start)
		n, _ := memory.ReadAt(content, start)
		if n > 0 {
			regions++
		}
		found = found || bytes.Contains(content[:n], []byte(secret))
	}
	require.NotZero(t, regions)
	return found
}

// What a job gets, in its environment or by its pipe, is in the memory of its process alone: not in the memory of the fork server,
// nor in that of a later child.
func TestMemoryOfOneJobIsNotThatOfAnother(t *testing.T) {
	f := newFixture(t)
	const inEnvironment, byPipe = "sesame of the environment", "sesame of the pipe"
	first := f.forkWith(1, "SECRET="+inEnvironment)
	first.state()
	require.NoError(t, first.process.Signal(unix.SIGSTOP)) // what the pipe has is not read
	first.tell(byPipe)
	require.True(t, has(t, first.pid, inEnvironment))
	second := f.fork(2)
	second.state()
	for name, pid := range map[string]int{"the fork server": f.pid(), "a later child": second.pid} {
		require.False(t, has(t, pid, inEnvironment), name)
		require.False(t, has(t, pid, byPipe), name)
	}
	long := f.forkWith(3, "LONG="+strings.Repeat("x", 10_000), "SECRET="+inEnvironment) // the place of the short request
	long.state()
	require.False(t, has(t, f.pid(), inEnvironment))
	require.False(t, has(t, f.pid(), strings.Repeat("x", 100)))
}

// forkWith makes a child with more variables.
func (f *fixture) forkWith(job int64, more ...string) *standIn {
	f.t.Helper()
	in, out, files := f.pipes()
	child, err := f.server.Fork(job, append(f.environment(), more...), files)
	require.NoError(f.t, err)
	_, _ = files[0].Close(), files[1].Close()
	f.t.Cleanup(func() { _ = child.Process.Signal(unix.SIGKILL); _ = child.Process.Close() })
	return &standIn{t: f.t, pid: child.PID, process: child.Process, in: in, out: bufio.NewReader(out), child: child}
}

// An environment that does not fit into a message is refused, and the fork server goes on.
func TestALongEnvironment(t *testing.T) {
	f := newFixture(t)
	_, _, files := f.pipes()
	_, err := f.server.Fork(1, append(f.environment(), "LONG="+strings.Repeat("x", messageMax)), files)
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	f.fork(2).state()
}

// The signals by which the daemon and locks reach a job's process reach a child: it has the handlers that the program sets.
func TestSignalsOfAChild(t *testing.T) {
	f := newFixture(t)
	p := f.fork(1)
	p.state()
	p.tell("signals")
	line := func() string {
		text, err := p.out.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(text)
	}
	require.Equal(t, "ready", line())
	for _, signal := range []unix.Signal{unix.SIGHUP, unix.SIGTERM, unix.SIGUSR1} {
		require.NoError(t, p.process.Signal(signal))
		require.Equal(t, unix.SignalName(signal), line())
	}
	p.tell("")
	require.Equal(t, "unwritten at the end\n", p.rest())
}
