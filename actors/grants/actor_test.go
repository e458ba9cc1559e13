package grants_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/grants"
	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/paths"
)

type bench struct {
	*testing.T
	*kittest.Env
	disk            *kittest.Disk
	client, gateway *kittest.Probe
	pid             *actor.PID
}

func onBench(t *testing.T, content string, f func(*bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		files := map[string]string{}
		if content != "" {
			files[paths.AccessPath] = content
		}
		b := &bench{T: t, Env: e, disk: kittest.NewDisk(files), client: e.Probe("client"), gateway: e.Probe("gateway")}
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4, Clients: []*actor.PID{e.PID("above-grants/grants")}}))
		b.pid = e.Start("grants", grants.Props(grants.Config{Env: e.Env, Store: pid, Subscribers: []*actor.PID{b.gateway.PID}}))
		f(b)
	})
}

func (b *bench) change(m grants.Change) *grants.ChangeResult {
	b.Helper()
	m.Request = 7
	b.client.Ask(b.pid, &m)
	b.Settle()
	b.Advance(time.Second) // the gateway does not say that it has told its connections
	return kittest.Expect[*grants.ChangeResult](b.client)
}

func (b *bench) published() []access.Grant {
	b.Helper()
	b.Settle()
	return kittest.Expect[*grants.Changed](b.gateway).Grants.List()
}

// A grant is on the disk when it is answered, and survives a crash of the actor.
func TestGrantsAreOnTheDisk(t *testing.T) {
	operate := grants.Change{Role: access.Operate, Who: "group:ops"}
	onBench(t, "", func(b *bench) {
		require.Empty(b, b.published())
		require.True(b, b.change(operate).Changed)
		require.JSONEq(b, `{"grants": [{"role": "operate", "who": "group:ops"}]}`, b.disk.Content(paths.AccessPath))
		want := []access.Grant{{Role: access.Operate, Who: "group:ops"}}
		require.Equal(b, want, b.published())
		require.False(b, b.change(operate).Changed)
		b.gateway.Quiet()
		b.Crash(b.pid)
		b.Advance(kittest.Backoff)
		require.Equal(b, want, b.published())
		operate.Revoke = true
		require.True(b, b.change(operate).Changed)
		require.Empty(b, b.published())
		require.JSONEq(b, `{"grants": []}`, b.disk.Content(paths.AccessPath))
		require.False(b, b.change(operate).Changed)
		require.Contains(b, b.change(grants.Change{Role: access.Read, Who: "a b"}).Failure.Text, "no name of a user")
	})
}

// What is not on the disk is not in force.
func TestAFailedWriteGrantsNothing(t *testing.T) {
	onBench(t, "", func(b *bench) {
		require.Empty(b, b.published())
		b.disk.Fail("replace grants", 1)
		require.NotNil(b, b.change(grants.Change{Role: access.Admin, Who: "alice"}).Failure)
		b.gateway.Quiet()
	})
}

// A file that cannot be used gives no role, and stays as it is.
func TestADamagedFileStays(t *testing.T) {
	const damaged = `{"grants": [{"role": "admin", "who": "user:alice"}`
	onBench(t, damaged, func(b *bench) {
		require.Empty(b, b.published())
		require.Contains(b, b.change(grants.Change{Role: access.Admin, Who: "bob"}).Failure.Text, "access.json cannot be used")
		b.client.Ask(b.pid, &grants.List{Request: 8})
		b.Settle()
		require.NotNil(b, kittest.Expect[*grants.ListResult](b.client).Failure)
		require.Equal(b, damaged, b.disk.Content(paths.AccessPath))
	})
}

// A change is answered when the gateway has told its connections.
func TestAChangeWaitsForTheGateway(t *testing.T) {
	onBench(t, "", func(b *bench) {
		b.Settle()
		b.client.Ask(b.pid, &grants.Change{Request: 7, Role: access.Operate, Who: "group:ops"})
		b.Settle()
		b.client.Quiet()
		kittest.Expect[*grants.Changed](b.gateway) // that of the start
		changed := kittest.Expect[*grants.Changed](b.gateway)
		b.Send(b.pid, &grants.Taken{Number: changed.Number})
		b.Settle()
		require.True(b, kittest.Expect[*grants.ChangeResult](b.client).Changed)
	})
}
