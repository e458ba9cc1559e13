package wconfd_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config"
	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/actors/wconfd"
	coreconfig "lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// fakeConn is a client's connection; the test is the client.
type fakeConn struct {
	mu      sync.Mutex
	to      *actor.PID
	answers []string
	closed  bool
}

func (c *fakeConn) Serve(to *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = to
}

func (c *fakeConn) Answer(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, string(frame))
}

func (c *fakeConn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// bench is a gateway; probes are its neighbours, unless it is whole.
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
			Owners: nobodyDies{}, Settings: lock.Settings{Hierarchy: lock.Implied}, Boot: boot, Self: lock.NamedOwner("lockstepd-destruction", "/live/daemon", 1)}))
		e.Start("cluster", config.Props(config.Config{Env: e.Env, Store: pid, Locks: names["locks"], Self: lock.NamedOwner("lockstepd-config", "/live/daemon", 1)}))
		e.Send(names["locks"], &messages.SetLockPauses{Incarnation: 1}) // as the scheduler does when it knows who is paused
		w.wconf = e.Start("wconf", wconfd.Props(wconfd.Config{Env: e.Env, Locks: names["locks"], ClusterConfig: names["cluster"]}))
		f(t, w, w.connect())
	})
}

type nobodyDies struct{}

func (nobodyDies) Watch(string, int)                            {}
func (nobodyDies) Forget(string)                                {}
func (nobodyDies) Wake(string, int)                             {}
func (nobodyDies) Remove(string)                                {}
func (nobodyDies) Probe(_ []string, answer func(dead []string)) { answer(nil) }

// fresh is the configuration of a new cluster.
func fresh(t require.TestingT) string {
	data, err := coreconfig.New(coreconfig.Identity{ClusterName: "demo", ClusterUUID: "c", NodeName: "node1", NodeUUID: "n", NodeIP: "127.0.0.1", GroupUUID: "g", Now: 1})
	require.NoError(t, err)
	return string(data)
}

// changed is a configuration with another number of running jobs.
func changed(t require.TestingT, content, jobs string) string {
	data, err := coreconfig.Edit([]byte(content), 5, coreconfig.ConfigChange{Cluster: map[string][]byte{"max_running_jobs": []byte(jobs)}})
	require.NoError(t, err)
	return string(data)
}

// client is one connection with its actor.
type client struct {
	*bench
	conn *fakeConn
}

func (b *bench) connect() *client {
	b.Helper()
	c := &client{b, &fakeConn{}}
	b.Send(b.wconf, &conn.Opened{Conn: c.conn})
	b.Settle()
	return c
}

func (c *client) tell(m any) {
	c.Helper()
	require.NotNil(c, c.conn.to, "nobody serves the connection")
	c.Send(c.conn.to, m)
	c.Settle()
}

// call sends a request, whose args are JSON.
func (c *client) call(method, args string) {
	c.Helper()
	c.tell(&conn.Received{Frame: []byte(`{"method": "` + method + `", "args": ` + args + `}` + "\n")})
}

// answer is the one answer since the last call.
func (c *client) answer() string {
	c.Helper()
	c.Settle()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	require.Len(c, c.conn.answers, 1)
	a := c.conn.answers[0]
	c.conn.answers = nil
	return a
}

// result is what a call is answered with, which is no error.
func (c *client) result(method, args string) string {
	c.Helper()
	c.call(method, args)
	var a struct {
		Success bool
		Result  json.RawMessage
	}
	text := c.answer()
	require.NoError(c, json.Unmarshal([]byte(text), &a))
	require.True(c, a.Success, text)
	return string(a.Result)
}

// silent: there is no answer yet.
func (c *client) silent() {
	c.Helper()
	c.Settle()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	require.Empty(c, c.conn.answers)
	require.False(c, c.conn.closed)
}

func (c *client) closed() bool {
	c.Settle()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return c.conn.closed
}

// asked is a question of the connection's actor to a neighbour.
func asked[M any](c *client, p *kittest.Probe) M {
	c.Helper()
	m, from := kittest.ExpectFrom[M](p)
	require.True(c, from.Equal(c.conn.to))
	return m
}

// locksAsked is a question to the lock manager.
func (c *client) locksAsked(function, args string) uint64 {
	c.Helper()
	m := asked[*messages.CallLocks](c, c.locks)
	require.Equal(c, function, m.Function)
	require.JSONEq(c, args, string(m.Args))
	return m.Request
}

func (c *client) locksAnswer(request uint64, result string) {
	c.Helper()
	c.tell(&messages.CallLocksResult{Request: request, Result: []byte(result)})
}

func (c *client) locksFail(request uint64, text string) {
	c.Helper()
	c.tell(&messages.CallLocksResult{Request: request, Failure: &messages.Failure{Class: "GenericError", Text: text}})
}

func (c *client) configAnswer(content string) {
	c.Helper()
	c.tell(&messages.ConfigPublished{Request: asked[*messages.PublishConfig](c, c.cluster).Request, Content: []byte(content)})
}
