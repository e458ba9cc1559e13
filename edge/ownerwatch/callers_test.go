package ownerwatch

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/core/ownership"
	"lockstep/persistence"
)

// watchCallers returns a port and the channel of its deaths.
func watchCallers(t *testing.T, dir string) (*Callers, chan reserve.Caller) {
	deaths := make(chan reserve.Caller, 10)
	c := NewCallers(dir, "", func(by reserve.Caller) { deaths <- by })
	t.Cleanup(c.Close)
	return c, deaths
}

func expectDeath(t *testing.T, deaths chan reserve.Caller, want reserve.Caller) {
	t.Helper()
	select {
	case by := <-deaths:
		require.Equal(t, want, by)
	case <-time.After(20 * time.Second):
		require.Fail(t, "no death was reported")
	}
}

func TestACallerWithoutLivelockDies(t *testing.T) {
	c, deaths := watchCallers(t, t.TempDir())
	tool := exec.Command("sleep", "1000")
	require.NoError(t, tool.Start())
	by := reserve.Caller{PID: tool.Process.Pid, UID: os.Getuid(), Program: "sleep"}
	for programOf(by.PID) != "sleep" { // between fork and exec
		time.Sleep(time.Millisecond)
	}
	c.Watch(by)
	c.Watch(by)
	c.Watch(reserve.Caller{})
	other := by
	other.Program = "daemon"
	c.Watch(other) // the process of that name has ended, and another one has its pid
	expectDeath(t, deaths, other)
	require.NoError(t, tool.Process.Kill())
	_, _ = tool.Process.Wait()
	expectDeath(t, deaths, by)
	c.Watch(by)
	expectDeath(t, deaths, by)
	require.Empty(t, deaths)
}

func TestACallerWithALivelockDies(t *testing.T) {
	dir := t.TempDir()
	c, deaths := watchCallers(t, dir)
	livelock, err := persistence.CreateLivelock(dir, "tool", ownership.Rules{})
	require.NoError(t, err)
	name := filepath.Base(livelock.Path())
	c.Watch(reserve.Caller{Known: true, Owner: lock.NamedOwner("tool", name, os.Getpid())})
	require.NoError(t, livelock.Release())
	expectDeath(t, deaths, reserve.Caller{Known: true, Owner: lock.Owner{Livelock: name}})
}
