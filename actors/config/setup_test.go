package config_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	coreconfig "lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

var self = lock.NamedOwner("lockstepd-config", "/live/daemon", 1)

// bench is the configuration actor with a store on a disk in memory, and a probe for the
// lock manager.
type bench struct {
	testing.TB
	*kittest.Env
	disk           *kittest.Disk
	locks          *kittest.Probe
	client, others *kittest.Probe // client sends requests; others is a subscriber
	cluster        *actor.PID
	number         uint64
}

// fresh is the configuration of a new cluster.
func fresh(t require.TestingT) string {
	data, err := coreconfig.New(coreconfig.Identity{ClusterName: "demo", ClusterUUID: "c", NodeName: "node1", NodeUUID: "n", NodeIP: "127.0.0.1", GroupUUID: "g", Now: 1})
	require.NoError(t, err)
	return string(data)
}

// onBench runs a test with an actor that has read a fresh configuration and has freed the
// lock of a former incarnation.
func onBench(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, map[string]string{paths.ConfigPath: fresh(t)})
		require.Equal(t, fresh(t), b.expectPublished())
		b.freeLock()
		f(t, b)
	})
}

func newBench(t *testing.T, e *kittest.Env, files map[string]string) *bench {
	b := &bench{TB: t, Env: e, disk: kittest.NewDisk(files), locks: e.Probe("locks"), client: e.Probe("client"), others: e.Probe("others")}
	pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 2,
		Clients: []*actor.PID{e.PID("above-cluster/cluster")}}))
	b.cluster = e.Start("cluster", config.Props(config.Config{Env: e.Env, Store: pid, Locks: b.locks.PID,
		Subscribers: []*actor.PID{b.others.PID}, Self: self}))
	return b
}

// expectPublished expects ConfigPublished at the subscriber, and returns the configuration.
func (b *bench) expectPublished() string {
	b.Helper()
	m := kittest.Expect[*messages.ConfigPublished](b.others)
	require.Zero(b, m.Request)
	return string(m.Content)
}

// readPublished is the answer to PublishConfig.
func (b *bench) readPublished() string {
	b.Helper()
	b.number++
	b.client.Ask(b.cluster, &messages.PublishConfig{Request: b.number})
	m := kittest.Expect[*messages.ConfigPublished](b.client)
	require.Equal(b, b.number, m.Request)
	return string(m.Content)
}

func (b *bench) write(content string) {
	b.number++
	b.client.Ask(b.cluster, &messages.WriteConfig{Request: b.number, Content: []byte(content)})
}

// edit sends an edit of max_running_jobs, or of a filter rule, and returns its number.
func (b *bench) edit(jobs, filter, rule string) uint64 {
	b.number++
	m := &messages.EditConfig{Request: b.number, Filter: filter, Rule: []byte(rule)}
	if jobs != "" {
		m.Cluster = map[string][]byte{"max_running_jobs": []byte(jobs)}
	}
	b.client.Ask(b.cluster, m)
	return b.number
}

// expectResult expects the answer to a WriteConfig or an EditConfig.
func (b *bench) expectResult(request uint64) *messages.Failure {
	b.Helper()
	m := kittest.Expect[interface {
		GetRequest() uint64
		GetFailure() *messages.Failure
	}](b.client)
	require.Equal(b, request, m.GetRequest())
	return m.GetFailure()
}

// expectLockCall expects the next call to the lock manager.
func (b *bench) expectLockCall(function string) *locks.Call {
	b.Helper()
	m, from := kittest.ExpectFrom[*locks.Call](b.locks)
	require.True(b, from.Equal(b.cluster))
	if function == locks.AwaitFunction {
		require.Equal(b, locks.Await{Seconds: 60, Pending: lock.Pending{Priority: -21, Owner: self,
			Request: lock.Request{{Lock: lock.ConfigLock, Mode: lock.Exclusive}}}}, m.Operation)
	} else {
		call := m.Operation.(locks.Apply).Call
		require.Equal(b, function, call.Function)
		require.Equal(b, self, call.Owner)
	}
	return m
}

func (b *bench) answerLockCall(m *locks.Call, value any, f *messages.Failure) {
	a := &locks.CallResult{Request: m.Request, Failure: f}
	if f == nil {
		a.Value = value
	}
	b.locks.Ask(b.cluster, a)
	b.Settle()
}

// grantLock expects the request for the lock and grants it.
func (b *bench) grantLock() {
	b.Helper()
	b.answerLockCall(b.expectLockCall(locks.AwaitFunction), locks.AwaitResult{Granted: true}, nil)
}

// freeLock expects the release of the lock and confirms it.
func (b *bench) freeLock() {
	b.Helper()
	b.answerLockCall(b.expectLockCall("freeLocks"), []any{}, nil)
}

func with(t require.TestingT, content string, c coreconfig.ConfigChange, now float64) string {
	edited, err := coreconfig.Edit([]byte(content), now, c)
	require.NoError(t, err)
	return string(edited)
}
