package confdkey_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/confdkey"
	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/core/paths"
)

type bench struct {
	*testing.T
	*kittest.Env
	disk   *kittest.Disk
	client *kittest.Probe
	pid    *actor.PID
}

func onBench(t *testing.T, files map[string]string, f func(*bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, disk: kittest.NewDisk(files), client: e.Probe("client")}
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4, Clients: []*actor.PID{e.PID("above-confdkey/confdkey")}}))
		octet := byte(0)
		random := func(n int) []byte { octet++; return bytes.Repeat([]byte{octet}, n) }
		b.pid = e.Start("confdkey", confdkey.Props(confdkey.Config{Env: e.Env, Store: pid, Random: random}))
		f(b)
	})
}

func (b *bench) rotate() *confdkey.Rotated {
	b.client.Ask(b.pid, &confdkey.Rotate{Request: 7})
	b.Settle()
	b.Advance(confdkey.Spread)
	m := kittest.Expect[*confdkey.Rotated](b.client)
	require.EqualValues(b, 7, m.Request)
	return m
}

// keys returns the first and the second key.
func (b *bench) keys() (first, second string) {
	b.Settle()
	return b.disk.Content(paths.ConfdKeyPath), b.disk.Content(paths.ConfdOtherKeyPath)
}

func key(digits string) string { return strings.Repeat(digits, 20) + "\n" }

func TestTheFirstKey(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		require.True(t, b.rotate().First)
		first, second := b.keys()
		require.Equal(t, key("01"), first)
		require.Empty(t, second)
	})
}

// At every time of a rotation both keys are valid: the one that clients have, and the one that they get.
func TestTwoKeysAreValidDuringARotation(t *testing.T) {
	onBench(t, map[string]string{paths.ConfdKeyPath: "old\n"}, func(b *bench) {
		b.client.Ask(b.pid, &confdkey.Rotate{Request: 1})
		first, second := b.keys()
		require.Equal(t, []string{"old\n", key("01")}, []string{first, second})
		b.client.Ask(b.pid, &confdkey.Rotate{Request: 2})
		require.Contains(t, kittest.Expect[*confdkey.Rotated](b.client).Failure.Text, "under way")
		b.Advance(confdkey.Spread)
		m := kittest.Expect[*confdkey.Rotated](b.client)
		require.Nil(t, m.Failure)
		require.Equal(t, confdkey.Overlap, m.Overlap)
		first, second = b.keys()
		require.Equal(t, []string{key("01"), "old\n"}, []string{first, second})
		b.Advance(confdkey.Overlap - 1)
		_, second = b.keys()
		require.Equal(t, "old\n", second)
		b.Advance(1)
		first, second = b.keys()
		require.Equal(t, []string{key("01"), ""}, []string{first, second})
	})
}

// The second rotation within the overlap keeps its own former key for the whole time.
func TestTheTimerOfAnEarlierRotationDoesNotCount(t *testing.T) {
	onBench(t, map[string]string{paths.ConfdKeyPath: "old\n"}, func(b *bench) {
		b.rotate()
		b.Advance(confdkey.Overlap / 2)
		b.rotate()
		b.Advance(confdkey.Overlap - 1)
		first, second := b.keys()
		require.Equal(t, []string{key("02"), key("01")}, []string{first, second})
		b.Advance(1)
		_, second = b.keys()
		require.Empty(t, second)
	})
}

func TestAFailedWriteLeavesTheKeyInForce(t *testing.T) {
	onBench(t, map[string]string{paths.ConfdKeyPath: "old\n"}, func(b *bench) {
		b.disk.Fail("replace confd-key", 1)
		b.client.Ask(b.pid, &confdkey.Rotate{Request: 1})
		require.NotNil(t, kittest.Expect[*confdkey.Rotated](b.client).Failure)
		first, _ := b.keys()
		require.Equal(t, "old\n", first)
		require.Nil(t, b.rotate().Failure, "it can be asked for again")
	})
}

func TestACrashInARotationLeavesTwoValidKeys(t *testing.T) {
	onBench(t, map[string]string{paths.ConfdKeyPath: "old\n"}, func(b *bench) {
		b.client.Ask(b.pid, &confdkey.Rotate{Request: 1})
		b.Settle()
		b.Crash(b.pid)
		b.Advance(confdkey.Spread)
		first, second := b.keys()
		require.Equal(t, []string{"old\n", key("01")}, []string{first, second})
		b.Advance(2 * confdkey.Overlap)
		first, second = b.keys()
		require.Equal(t, []string{"old\n", ""}, []string{first, second})
	})
}
