package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/session"
)

var start = time.Unix(1_800_000_000, 0)

func named(n int) session.Session {
	return session.Session{Hash: session.HashOf(fmt.Append(nil, n)), User: fmt.Sprintf("user=u%d", n), Name: fmt.Sprintf("u%d", n), Proof: "p"}
}

func TestASessionIsValidWhileItIsUsed(t *testing.T) {
	table, err := session.Decode(nil)
	require.NoError(t, err)
	table = table.Open(named(1), start)
	now := start
	for range 10 {
		now = now.Add(session.Idle - time.Minute)
		s, noted, changed, ok := table.Find(named(1).Hash, now)
		require.True(t, ok)
		require.True(t, changed)
		require.Equal(t, "user=u1", s.User)
		table = noted
		_, _, changed, ok = table.Find(named(1).Hash, now.Add(time.Minute))
		require.True(t, ok)
		require.False(t, changed, "a use within minutes is not written")
	}
	_, _, _, ok := table.Find(named(1).Hash, now.Add(session.Idle+time.Second))
	require.False(t, ok)
	_, _, _, ok = table.Find(named(2).Hash, now)
	require.False(t, ok)
}

func TestAnEndedSessionIsNotThere(t *testing.T) {
	table, _ := session.Decode(nil)
	table = table.Open(named(1), start).Open(named(2), start)
	next, ended := table.End(named(1).Hash, start)
	require.True(t, ended)
	require.Equal(t, 2, table.Len(), "the former table does not change")
	read, err := session.Decode(next.Encode())
	require.NoError(t, err)
	_, _, _, ok := read.Find(named(1).Hash, start)
	require.False(t, ok)
	_, _, _, ok = read.Find(named(2).Hash, start)
	require.True(t, ok)
	_, ended = next.End(named(1).Hash, start)
	require.False(t, ended)
	require.Equal(t, string(read.Encode()), string(next.Encode()))
	require.NotContains(t, string(next.Encode()), string(fmt.Append(nil, 2, "secret")))
}

func TestTheNumberOfSessionsIsBounded(t *testing.T) {
	table, _ := session.Decode(nil)
	for n := range session.Max + 5 {
		table = table.Open(named(n), start.Add(time.Duration(n)*time.Second))
	}
	require.Equal(t, session.Max, table.Len())
	require.Equal(t, 1, table.Open(named(1), start.Add(48*time.Hour)).Len(), "expired ones go")
}

// A user who logs in all the time ends his own sessions only, and keeps the newest fifty. When there is no place for more, the user who
// has most loses one.
func TestAUserEndsHisOwnSessions(t *testing.T) {
	of := func(user string, n int) session.Session {
		return session.Session{Hash: session.HashOf(fmt.Append([]byte(user), n)), User: "user=" + user, Name: user, Proof: "p"}
	}
	table, _ := session.Decode(nil)
	table = table.Open(of("admin", 0), start)
	for n := range 2010 {
		table = table.Open(of("guest", n), start.Add(time.Duration(n)*time.Second))
	}
	now := start.Add(2010 * time.Second)
	_, _, _, ok := table.Find(of("admin", 0).Hash, now)
	require.True(t, ok)
	require.Equal(t, 1+session.UserMax, table.Len())
	_, _, _, ok = table.Find(of("guest", 2010-session.UserMax).Hash, now)
	require.True(t, ok)
	_, _, _, ok = table.Find(of("guest", 2009-session.UserMax).Hash, now)
	require.False(t, ok)
	for n := range session.Max {
		table = table.Open(named(n), now)
	}
	require.Equal(t, session.Max, table.Len())
	_, _, _, ok = table.Find(named(session.Max-1).Hash, now)
	require.True(t, ok)
}

func TestALinkIsValidOnceForAMinute(t *testing.T) {
	var links session.Links
	links.Add([]byte("token"), session.ByLink("uid=0(root)", access.Identity{UID: 0, Name: "root"}), start)
	hash := session.HashOf([]byte("token"))
	_, ok := links.Take(session.HashOf([]byte("other")), start)
	require.False(t, ok)
	opened, ok := links.Take(hash, start.Add(59*time.Second))
	require.True(t, ok)
	require.Equal(t, session.Session{User: "uid=0(root)", Account: &access.Identity{Name: "root", Login: 0}}, opened)
	_, ok = links.Take(hash, start)
	require.False(t, ok)
	links.Add([]byte("token"), session.ByLink("uid=0(root)", access.Identity{UID: 0, Name: "root"}), start)
	_, ok = links.Take(hash, start.Add(session.LinkLife))
	require.False(t, ok)
	for n := range 150 {
		links.Add(fmt.Append(nil, n), session.Session{}, start.Add(time.Duration(n)*time.Millisecond))
	}
	_, ok = links.Take(session.HashOf([]byte("49")), start)
	require.False(t, ok)
	_, ok = links.Take(session.HashOf([]byte("50")), start)
	require.True(t, ok)
}

func TestWhatIsNoSession(t *testing.T) {
	require.NoError(t, named(1).Validate())
	for _, s := range []session.Session{{}, {Hash: "ab", User: "x"}, {Hash: named(1).Hash}, {Hash: named(1).Hash, User: string(make([]byte, 301))}} {
		require.Error(t, s.Validate())
	}
	_, err := session.Decode([]byte("{"))
	require.Error(t, err)
	table, err := session.Decode([]byte(`{"sessions":[{"hash":"x","user":"y"}]}`))
	require.NoError(t, err)
	require.Zero(t, table.Len())
}
