package sessions_test

import (
	"bytes"
	"encoding/base64"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/sessions"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/paths"
	"lockstep/core/session"
)

type bench struct {
	*testing.T
	*kittest.Env
	disk   *kittest.Disk
	client *kittest.Probe
	pid    *actor.PID
	last   uint64
}

func onBench(t *testing.T, files map[string]string, f func(*bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, disk: kittest.NewDisk(files), client: e.Probe("client")}
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4, Clients: []*actor.PID{e.PID("above-sessions/sessions")}}))
		octet := byte(0)
		random := func(n int) []byte { octet++; return bytes.Repeat([]byte{octet}, n) }
		b.pid = e.Start("sessions", sessions.Props(sessions.Config{Env: e.Env, Store: pid, Random: random}))
		f(b)
	})
}

func (b *bench) ask(op sessions.Operation) *sessions.CallResult {
	b.Helper()
	b.last++
	b.client.Ask(b.pid, &sessions.Call{Request: b.last, Operation: op})
	b.Settle()
	m := kittest.Expect[*sessions.CallResult](b.client)
	require.Equal(b, b.last, m.Request)
	return m
}

var mine = session.Session{Hash: session.HashOf([]byte("mine")), User: "user=deploy", Name: "deploy", Proof: "p"}

// A session that the client was told of survives a crash of the actor. After its end it is not on the disk.
func TestSessionsAreOnTheDisk(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		require.False(b, b.ask(sessions.Check{Hash: mine.Hash}).Valid)
		require.True(b, b.ask(sessions.Open{Session: mine}).Valid)
		require.Contains(b, b.disk.Content(paths.SessionsPath), mine.Hash)
		found := b.ask(sessions.Check{Hash: mine.Hash})
		require.True(b, found.Valid)
		require.Equal(b, "user=deploy", found.Session.User)
		require.Equal(b, "p", found.Session.Proof)
		require.True(b, b.ask(sessions.End{Hash: mine.Hash}).Valid)
		require.NotContains(b, b.disk.Content(paths.SessionsPath), mine.Hash)
		require.False(b, b.ask(sessions.Check{Hash: mine.Hash}).Valid)
		require.False(b, b.ask(sessions.End{Hash: mine.Hash}).Valid)
	})
	table, err := session.Decode(nil)
	require.NoError(t, err)
	onBench(t, map[string]string{paths.SessionsPath: string(table.Open(mine, time.Now().Add(-24*365*time.Hour)).Encode())}, func(b *bench) {
		require.NotNil(b, b.ask(sessions.Check{Hash: mine.Hash}))
	})
	onBench(t, map[string]string{paths.SessionsPath: "{damaged"}, func(b *bench) {
		require.False(b, b.ask(sessions.Check{Hash: mine.Hash}).Valid)
		require.True(b, b.ask(sessions.Open{Session: mine}).Valid)
	})
}

// A link opens one session, with the account and the groups of the client who has asked for it.
func TestALinkOpensOneSession(t *testing.T) {
	alice := access.Identity{UID: 1000, Name: "alice", GIDs: []int{1000, 27}, Groups: []string{"alice", "ops"}, Login: 1000}
	onBench(t, nil, func(b *bench) {
		link := b.ask(sessions.MakeLink{Opens: session.ByLink("uid=1000(alice)", alice)})
		token, err := base64.RawURLEncoding.DecodeString(link.Token)
		require.NoError(b, err)
		require.Len(b, token, 32)
		redeem := sessions.Redeem{Link: session.HashOf(token), Session: mine.Hash}
		opened := b.ask(redeem)
		require.True(b, opened.Valid)
		require.Equal(b, "uid=1000(alice)", opened.Session.User)
		require.Empty(b, opened.Session.Name)
		require.Equal(b, &alice, opened.Session.Account)
		require.False(b, b.ask(redeem).Valid, "a second time")
		checked := b.ask(sessions.Check{Hash: mine.Hash})
		require.True(b, checked.Valid)
		require.Equal(b, &alice, checked.Session.Account)
		require.NotContains(b, b.disk.Content(paths.SessionsPath), link.Token)
		late := b.ask(sessions.MakeLink{Opens: session.ByLink("uid=0(root)", access.Identity{})})
		token, err = base64.RawURLEncoding.DecodeString(late.Token)
		require.NoError(b, err)
		b.Advance(session.LinkLife)
		require.False(b, b.ask(sessions.Redeem{Link: session.HashOf(token), Session: mine.Hash}).Valid)
	})
}

func TestASessionThatCannotBeWritten(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		require.NotNil(b, b.ask(sessions.Open{Session: session.Session{Hash: "x", User: "y"}}).Failure)
		b.Settle()
		b.disk.Fail("replace sessions", 1)
		require.NotNil(b, b.ask(sessions.Open{Session: mine}).Failure)
	})
}

// An unused session ends. Each use within that time counts, and is written now and then only.
func TestAnUnusedSessionEnds(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		b.ask(sessions.Open{Session: mine})
		for range 3 {
			b.Advance(session.Idle - time.Minute)
			require.True(b, b.ask(sessions.Check{Hash: mine.Hash}).Valid)
			b.Settle()
		}
		written := b.disk.Content(paths.SessionsPath)
		b.Advance(time.Minute)
		require.True(b, b.ask(sessions.Check{Hash: mine.Hash}).Valid)
		require.Equal(b, written, b.disk.Content(paths.SessionsPath))
		b.Advance(session.Idle + time.Minute)
		require.False(b, b.ask(sessions.Check{Hash: mine.Hash}).Valid)
	})
}
