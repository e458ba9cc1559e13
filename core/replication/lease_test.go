package replication_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/replication"
	"lockstep/messages"
)

func TestDeclaredTimes(t *testing.T) {
	want := replication.Times{Heartbeat: 500 * time.Millisecond, Lease: 375 * time.Millisecond}
	got, ok := replication.DeclaredTimes(replication.Declaration(3, want, nil))
	require.True(t, ok)
	require.Equal(t, want, got)
	for name, d := range map[string]*messages.ElectionTimes{
		"none":                         nil,
		"no lease":                     {HeartbeatMs: 500},
		"a lease as long as the wait":  {HeartbeatMs: 500, LeaseMs: 500},
		"longer than all versions use": {HeartbeatMs: 1500, LeaseMs: 500},
		"a negative lease":             {HeartbeatMs: 500, LeaseMs: -1},
	} {
		_, ok := replication.DeclaredTimes(d)
		require.False(t, ok, name)
	}
	for _, times := range []replication.Times{replication.InitialTimes(), replication.KnownTimes()} {
		_, ok := replication.DeclaredTimes(replication.Declaration(1, times, nil))
		require.True(t, ok)
	}
}

func TestTimesAreAgreedWhenAllMembersKnowThem(t *testing.T) {
	short := replication.Times{Heartbeat: 500 * time.Millisecond, Lease: 375 * time.Millisecond}
	three := []*messages.Member{member("c", true), member("a", true), member("b", false)}
	known := replication.TimesKnown{}
	require.Nil(t, known.Agreed(short, "a", three))
	known.State("c", short.Heartbeat)
	known.State("b", 0)
	require.Nil(t, known.Agreed(short, "a", three), "b states nothing")
	require.Equal(t, []string{"a", "c"}, known.Agreed(short, "a", three[:2]))
	known.State("b", 100*time.Millisecond)
	require.Equal(t, []string{"a", "b", "c"}, known.Agreed(short, "a", three))
	require.Nil(t, known.Agreed(replication.InitialTimes(), "a", three), "there is nothing to declare")
	known.State("b", 600*time.Millisecond)
	require.Nil(t, known.Agreed(short, "a", three))
	known.Take(replication.Declaration(1, short, []string{"b"}))
	require.NotNil(t, known.Agreed(short, "a", three), "a declaration is newer")
}
