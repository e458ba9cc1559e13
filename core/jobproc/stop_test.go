package jobproc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestACommandIsEndedInTwoSteps(t *testing.T) {
	start := time.Unix(1000, 0)
	after := func(d time.Duration) time.Time { return start.Add(d) }

	s := NewCommandStop(start, 1.5)
	require.Equal(t, after(1500*time.Millisecond), s.Deadline())
	require.Equal(t, NoSignal, s.Tick(after(time.Second)), "early")
	require.Equal(t, Terminate, s.Tick(after(1500*time.Millisecond)))
	require.Equal(t, NoSignal, s.Request(after(2*time.Second)), "the first reason counts")
	require.Equal(t, NoSignal, s.Tick(after(11*time.Second)))
	require.Equal(t, ForceKill, s.Tick(after(1500*time.Millisecond+KillGrace)))
	require.Zero(t, s.Deadline())
	require.Equal(t, NoSignal, s.Tick(after(time.Hour)))
	require.Equal(t, TimedOut, s.Reason())
	require.JSONEq(t, `["OpExecError", ["command timed out after 1.5 s", {"timeout": 1.5}]]`, string(s.Outcome().Result))

	s = NewCommandStop(start, 0)
	require.Zero(t, s.Deadline())
	require.Equal(t, NotStopped, s.Reason())
	require.Equal(t, Terminate, s.Request(after(time.Second)))
	require.Equal(t, after(time.Second+KillGrace), s.Deadline())
	require.Equal(t, StoppedOnRequest, s.Reason())
	require.JSONEq(t, `["OpExecError", ["Ended on request", {"signal": "SIGTERM"}]]`, string(s.Outcome().Result))
}

func TestBackoff(t *testing.T) {
	b := Backoff{First: 50 * time.Millisecond, Max: 150 * time.Millisecond}
	for _, want := range []int{50, 100, 150, 150} {
		require.Equal(t, time.Duration(want)*time.Millisecond, b.Pause())
	}
	b.Reset()
	require.Equal(t, b.First, b.Pause())
}
