package pidfd

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const patience = 30 * time.Second

// started is a process that lives until it is killed and is reaped at the end of the test.
func started(t *testing.T) (*exec.Cmd, *Process) {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p, err := Open(cmd.Process.Pid)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return cmd, p
}

func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.Fail(t, "nothing comes")
		panic("unreachable")
	}
}

func TestTheEndIsSeen(t *testing.T) {
	cmd, p := started(t)
	require.False(t, p.Ended())
	require.False(t, p.EndsWithin(time.Millisecond))
	seen := make(chan bool, 1)
	go func() { seen <- p.AwaitEnd() }()
	require.NoError(t, p.Signal(syscall.SIGKILL))
	require.True(t, within(t, seen))
	require.True(t, p.Ended())
	require.True(t, p.EndsWithin(patience))
	require.True(t, p.AwaitEnd())
	_ = cmd.Wait()
	require.True(t, p.Ended(), "reaped")
	require.ErrorIs(t, p.Signal(syscall.SIGTERM), unix.ESRCH)
}

func TestToCloseEndsTheWait(t *testing.T) {
	_, p := started(t)
	seen := make(chan bool, 1)
	go func() { seen <- p.AwaitEnd() }()
	require.NoError(t, p.Close())
	require.False(t, within(t, seen))
	require.False(t, p.Ended())
	require.Error(t, p.Signal(syscall.SIGTERM))
}

// A call of Wake that finds nobody waiting ends the next wait.
func TestWakeEndsTheWait(t *testing.T) {
	_, p := started(t)
	for range 100 {
		seen := make(chan bool, 1)
		go func() { seen <- p.EndsWithin(time.Hour) }()
		p.Wake()
		require.False(t, within(t, seen))
	}
	require.False(t, p.Ended())
}

func TestWhatIsNoProcess(t *testing.T) {
	for _, pid := range []int{0, -1, 1 << 30} {
		_, err := Open(pid)
		require.Error(t, err)
	}
	_, err := FromDescriptor(1<<20, 1)
	require.Error(t, err)
}
