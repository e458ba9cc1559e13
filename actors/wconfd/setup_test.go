package wconfd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/configstore/configstoretest"
	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/actors/wconfd"
	"lockstep/core/config/calls"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/messages"
)

// bench is a gateway. Its neighbours are probes, or the real actors in onWhole.
type bench struct {
	*testing.T
	*kittest.Env
	locks, cluster *kittest.Probe
	wconfd         *actor.PID
}

func onBench(t *testing.T, f func(*testing.T, *bench, *client)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, locks: e.Probe("locks"), cluster: e.Probe("clusterconfig")}
		b.wconfd = e.Start("wconfd", wconfd.Props(wconfd.Config{Env: e.Env, Locks: b.locks.PID, ClusterConfig: b.cluster.PID}))
		f(t, b, b.connect())
	})
}

// whole is a gateway with the real actors behind it, and a disk and a storage in memory.
type whole struct {
	*bench
	disk    *kittest.Disk
	storage *configstoretest.Storage
	cluster *actor.PID
	random  byte // the next octets
}

const boot = "boot-1"

func onWhole(t *testing.T, f func(*testing.T, *whole, *client)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		w := &whole{bench: &bench{T: t, Env: e}, disk: kittest.NewDisk(nil), storage: configstoretest.Start(t, e, fresh(t))}
		queue := e.Probe("queue")
		names := map[string]*actor.PID{}
		for _, name := range []string{"locks", "clusterconfig", "wconfd"} {
			names[name] = e.PID("above-" + name + "/" + name)
		}
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: w.disk, Writers: 2, Clients: []*actor.PID{names["locks"], names["clusterconfig"]}}))
		destruction := lock.NamedOwner("lockstepd-destruction", "/live/daemon", 1)
		e.Start("locks", locks.Props(locks.Config{Env: e.Env, Store: pid, Queue: queue.PID, Scheduler: queue.PID, Clients: []*actor.PID{names["clusterconfig"], names["wconfd"]},
			ClusterConfig: names["clusterconfig"], Owners: immortalOwners{}, Settings: lock.Settings{Hierarchy: lock.Implied}, Boot: boot, Self: destruction}))
		w.cluster = e.Start("clusterconfig", clusterconfig.Props(clusterconfig.Config{Env: e.Env, Store: pid, ConfigStore: w.storage.PID, Locks: names["locks"], Owners: immortalCallers{},
			Random: func(count int) []byte { w.random++; return bytes.Repeat([]byte{w.random - 1}, count) }, Destruction: destruction}))
		e.Send(names["locks"], &messages.SetLockPauses{Incarnation: 1}) // as the scheduler does when it knows who is paused
		w.wconfd = e.Start("wconfd", wconfd.Props(wconfd.Config{Env: e.Env, Locks: names["locks"], ClusterConfig: names["clusterconfig"]}))
		f(t, w, w.connect())
	})
}

// stored is the configuration that the storage has, as JSON.
func (w *whole) stored() string { return string(w.storage.State().Config.JSON()) }

type immortalCallers struct{}

func (immortalCallers) Watch(reserve.Caller) {}

type immortalOwners struct{}

func (immortalOwners) Watch(string, int)                            {}
func (immortalOwners) Forget(string)                                {}
func (immortalOwners) Wake(string, int)                             {}
func (immortalOwners) Remove(string)                                {}
func (immortalOwners) Probe(_ []string, answer func(dead []string)) { answer(nil) }

// fresh is a configuration with an object of each kind.
func fresh(t require.TestingT) *model.Config {
	return configtest.Complete(t, []byte(`{"cluster": {"master_node": "n", "uuid": "c"}, "nodes": {"n": {"name": "node1", "group": "g"}}, "nodegroups": {"g": {"name": "default"}},
		"instances": {"i": {"name": "mail", "primary_node": "n", "disks": ["d"], "nics": [{"mac": "aa:00:00:00:00:01"}]}},
		"disks": {"d": {"dev_type": "plain", "logical_id": ["vg", "one"], "iv_name": "disk/0"}, "e": {"dev_type": "plain", "logical_id": ["vg", "two"]}},
		"networks": {"w": {"name": "lan", "network": "192.0.2.0/28", "reservations": "1000000000000000", "ext_reservations": "0000000000000001"}}}`))
}

// freshText is the same as JSON.
func freshText(t require.TestingT) string { return string(fresh(t).JSON()) }

// changed is a configuration with another max_running_jobs.
func changed(content, jobs string) string {
	return regexp.MustCompile(`"max_running_jobs":[0-9]+`).ReplaceAllString(content, `"max_running_jobs":`+jobs)
}

// requireConfig checks a configuration, without the top-level serial number and time of change.
func requireConfig(t require.TestingT, want, got string) {
	counters := regexp.MustCompile(`,"mtime":[0-9.e]+,"serial_no":[0-9]+}$`)
	require.JSONEq(t, counters.ReplaceAllString(want, "}"), counters.ReplaceAllString(got, "}"))
}

// client is one connection with its actor.
type client struct {
	*bench
	*conntest.Client
	asked map[uint64]string // the functions of calls to the lock manager, by request
}

func (b *bench) connect() *client {
	return &client{bench: b, Client: conntest.Connect(b.T, b.Env, b.wconfd), asked: map[uint64]string{}}
}

// result makes a call and returns its result. An error fails the test.
func (c *client) result(method, args string) string {
	c.Helper()
	c.Call(method, args)
	var a struct {
		Success bool
		Result  json.RawMessage
	}
	text := c.Answer()
	require.NoError(c, json.Unmarshal([]byte(text), &a))
	require.True(c, a.Success, text)
	return string(a.Result)
}

// asked is a message of the connection's actor to a neighbour.
func asked[M any](c *client, p *kittest.Probe) M {
	c.Helper()
	return conntest.Asked[M](c.Client, p)
}

// locksAsked expects a call to the lock manager and returns its number.
func (c *client) locksAsked(function, args string) uint64 {
	c.Helper()
	m := asked[*locks.Operate](c, c.locks)
	require.Equal(c, calledAs(c, function, args), described(c, m.Operation))
	c.asked[m.Request] = function
	return m.Request
}

// calledAs describes the operation that a call becomes.
func calledAs(t require.TestingT, function, args string) string {
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(args), &list))
	op, err := locks.Parse(function, list)
	require.NoError(t, err)
	return described(t, op)
}

// described is an operation with its effects on two states: without a lock owner, and with one that holds a lock.
func described(t require.TestingT, op locks.Operation) string {
	apply, is := op.(locks.Apply)
	if !is {
		return fmt.Sprintf("%T %+v", op, op)
	}
	text := apply.Call.Function
	for _, items := range []lock.Request{{}, {{Lock: lock.ConfigLock, Mode: lock.Exclusive}}} {
		state := lock.New(lock.Settings{Hierarchy: lock.Implied})
		_, err := state.TryUpdate(time.Time{}, apply.Call.Owner, items)
		require.NoError(t, err)
		_, err = apply.Call.Do(state, time.Time{})
		text += fmt.Sprintf(" %+v %v", state.Snapshot(), err)
	}
	return text
}

// valueOf is the result of a function.
func valueOf(t require.TestingT, function, result string) any {
	switch function {
	case "listLocks":
		var items []lock.Item
		require.NoError(t, json.Unmarshal([]byte(result), &items))
		return items
	case "tryUpdateLocks":
		var blockers []lock.Owner
		require.NoError(t, json.Unmarshal([]byte(result), &blockers))
		return blockers
	}
	return json.RawMessage(result)
}

// locksAnswer answers a call with a result in JSON.
func (c *client) locksAnswer(request uint64, result string) {
	c.Helper()
	c.Tell(&locks.OperateResult{Request: request, Value: valueOf(c, c.asked[request], result)})
}

func (c *client) locksFail(request uint64, text string) {
	c.Helper()
	c.Tell(&locks.OperateResult{Request: request, Failure: &messages.Failure{Class: "GenericError", Text: text}})
}

// configAsked expects a call to the configuration's actor.
func (c *client) configAsked(method string) *clusterconfig.Call {
	c.Helper()
	m := asked[*clusterconfig.Call](c, c.cluster)
	require.Equal(c, method, m.Call.Method)
	return m
}

// configAnswer answers a call to the configuration's actor with a configuration.
func (c *client) configAnswer(method string, content *model.Config) {
	c.Helper()
	c.Tell(&clusterconfig.CallResult{Request: c.configAsked(method).Request, Snapshot: calls.NewSnapshot(content)})
}
