package wconfd_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config"
	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/actors/wconfd"
	coreconfig "lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// bench is a gateway. Its neighbours are probes, or the real actors in onWhole.
type bench struct {
	*testing.T
	*kittest.Env
	locks, cluster *kittest.Probe
	wconf          *actor.PID
}

func onBench(t *testing.T, f func(*testing.T, *bench, *client)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, locks: e.Probe("locks"), cluster: e.Probe("cluster")}
		b.wconf = e.Start("wconf", wconfd.Props(wconfd.Config{Env: e.Env, Locks: b.locks.PID, ClusterConfig: b.cluster.PID}))
		f(t, b, b.connect())
	})
}

// configArgs is a gateway with the real actors behind it, and a disk in memory.
type configArgs struct {
	*bench
	disk *kittest.Disk
}

const boot = "boot-1"

func onWhole(t *testing.T, f func(*testing.T, *configArgs, *client)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		w := &configArgs{bench: &bench{T: t, Env: e}, disk: kittest.NewDisk(map[string]string{paths.ConfigPath: fresh(t)})}
		queue := e.Probe("queue")
		names := map[string]*actor.PID{}
		for _, name := range []string{"locks", "cluster", "wconf"} {
			names[name] = e.PID("above-" + name + "/" + name)
		}
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: w.disk, Writers: 2, Clients: []*actor.PID{names["locks"], names["cluster"]}}))
		e.Start("locks", locks.Props(locks.Config{Env: e.Env, Store: pid, Queue: queue.PID, Scheduler: queue.PID, Clients: []*actor.PID{names["cluster"], names["wconf"]},
			Owners: immortalOwners{}, Settings: lock.Settings{Hierarchy: lock.Implied}, Boot: boot, Self: lock.NamedOwner("lockstepd-destruction", "/live/daemon", 1)}))
		e.Start("cluster", config.Props(config.Config{Env: e.Env, Store: pid, Locks: names["locks"], Self: lock.NamedOwner("lockstepd-config", "/live/daemon", 1)}))
		e.Send(names["locks"], &messages.SetLockPauses{Incarnation: 1}) // as the scheduler does when it knows the paused jobs
		w.wconf = e.Start("wconf", wconfd.Props(wconfd.Config{Env: e.Env, Locks: names["locks"], ClusterConfig: names["cluster"]}))
		f(t, w, w.connect())
	})
}

type immortalOwners struct{}

func (immortalOwners) Watch(string, int)                            {}
func (immortalOwners) Forget(string)                                {}
func (immortalOwners) Wake(string, int)                             {}
func (immortalOwners) Remove(string)                                {}
func (immortalOwners) Probe(_ []string, answer func(dead []string)) { answer(nil) }

// fresh is the configuration of a new cluster.
func fresh(t require.TestingT) string {
	data, err := coreconfig.New(coreconfig.Identity{ClusterName: "demo", ClusterUUID: "c", NodeName: "node1", NodeUUID: "n", NodeIP: "127.0.0.1", GroupUUID: "g", Now: 1})
	require.NoError(t, err)
	return string(data)
}

// changed is content with another max_running_jobs.
func changed(t require.TestingT, content, jobs string) string {
	data, err := coreconfig.Edit([]byte(content), 5, coreconfig.ConfigChange{Cluster: map[string][]byte{"max_running_jobs": []byte(jobs)}})
	require.NoError(t, err)
	return string(data)
}

// client is one connection with its actor.
type client struct {
	*bench
	*conntest.Client
	asked map[uint64]string // the functions of calls to the lock manager, by request
}

func (b *bench) connect() *client {
	return &client{bench: b, Client: conntest.Connect(b.T, b.Env, b.wconf), asked: map[uint64]string{}}
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
	m := asked[*locks.Call](c, c.locks)
	require.Equal(c, calledAs(c, function, args), described(c, m.Operation))
	c.asked[m.Request] = function
	return m.Request
}

// calledAs describes the operation that a call becomes.
func calledAs(t require.TestingT, function, args string) string {
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(args), &list))
	if function == passBGL {
		var from lock.Owner
		require.NoError(t, lock.Arguments(list, &from))
		return described(t, locks.PassBGL{From: from})
	}
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

// passBGL names an operation that has no function on the wire.
const passBGL = "PassBGL"

// locksAnswer answers a call with a result in JSON.
func (c *client) locksAnswer(request uint64, result string) {
	c.Helper()
	c.Tell(&locks.CallResult{Request: request, Value: valueOf(c, c.asked[request], result)})
}

func (c *client) locksFail(request uint64, text string) {
	c.Helper()
	c.Tell(&locks.CallResult{Request: request, Failure: &messages.Failure{Class: "GenericError", Text: text}})
}

func (c *client) configAnswer(content string) {
	c.Helper()
	c.Tell(&messages.ConfigPublished{Request: asked[*messages.PublishConfig](c, c.cluster).Request, Content: []byte(content)})
}
