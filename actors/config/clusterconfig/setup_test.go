package clusterconfig_test

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/configstore/configstoretest"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/core/config/calls"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/messages"
)

var (
	daemon = lock.NamedOwner("lockstepd-destruction", "/live/daemon", 1)
	job12  = lock.JobOwner(12, "/live/job_12", 112)
	tool   = lock.NamedOwner("tool", "/live/tool", 7)
)

// callers is a port that records its watches.
type callers struct {
	mu      sync.Mutex
	watched []reserve.Caller
}

func (c *callers) Watch(by reserve.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = append(c.watched, by)
}

func (c *callers) take() []reserve.Caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	watched := c.watched
	c.watched = nil
	return watched
}

// bench is the configuration's actor with a store on a disk in memory, a storage in memory, and a probe for the lock manager.
type bench struct {
	testing.TB
	*kittest.Env
	disk           *kittest.Disk
	storage        *configstoretest.Storage
	locks          *kittest.Probe
	held           []lock.Item    // by every client
	unlocked       []bool         // of each call of Config.Unlocked
	client, others *kittest.Probe // client sends requests; others is a subscriber
	nodes          *kittest.Probe // stands for the distributor; nil: there is none
	callers        *callers
	cluster        *actor.PID
	number         uint64
	pid            int // of the client's process
}

// fresh is a configuration with an instance i, two disks, a network and a node.
func fresh(t require.TestingT) *model.Config {
	return configtest.Complete(t, []byte(`{"cluster": {"master_node": "n", "uuid": "c"}, "nodes": {"n": {"name": "node1", "group": "g"}}, "nodegroups": {"g": {"name": "default"}},
		"instances": {"i": {"name": "mail", "primary_node": "n", "disks": ["d"], "nics": [{"mac": "aa:00:00:00:00:01"}]}},
		"disks": {"d": {"dev_type": "plain", "logical_id": ["vg", "one"], "iv_name": "disk/0"}, "e": {"dev_type": "plain", "logical_id": ["vg", "two"]}},
		"networks": {"w": {"name": "lan", "network": "192.0.2.0/28", "reservations": "1000000000000000", "ext_reservations": "0000000000000001"}}}`))
}

// onBench runs a test with an actor that has loaded a configuration, with free locks.
func onBench(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, nil)
		b.storage = startStorage(t, e)
		b.start()
		b.locked(nil)
		f(t, b)
	})
}

func newBench(t testing.TB, e *kittest.Env, files map[string]string) *bench {
	return &bench{TB: t, Env: e, disk: kittest.NewDisk(files), locks: e.Probe("locks"), client: e.Probe("client"), others: e.Probe("others"),
		callers: &callers{}, pid: 4711}
}

// start starts the actor and waits until it has a configuration.
func (b *bench) start() {
	b.Helper()
	b.startUnusable()
	b.expectPublished()
	kittest.Expect[*locks.PublishConfigLocks](b.locks)
	kittest.Expect[*locks.SetBypassLimit](b.locks)
}

// answerHeld answers the question about the locks of a client.
func (b *bench) answerHeld(m any) any {
	if c, is := m.(*locks.Operate); is {
		if _, is := c.Operation.(locks.ListHeld); is {
			return &locks.OperateResult{Request: c.Request, Value: b.held}
		}
	}
	return nil
}

func (b *bench) startUnusable() {
	b.locks.Answer(b.answerHeld)
	b.Helper()
	pid := b.Start("store", store.Props(store.Config{Env: b.Env.Env, Files: b.disk, Writers: 2, Clients: []*actor.PID{b.PID("above-cluster/cluster")}}))
	c := clusterconfig.Config{Env: b.Env.Env, Store: pid, ConfigStore: b.storage.PID, Locks: b.locks.PID, Subscribers: []*actor.PID{b.others.PID}, Owners: b.callers, Unlocked: func(u clusterconfig.Unlocked) { b.unlocked = append(b.unlocked, u.Refused) },
		Random: func(count int) []byte { return make([]byte, count) }, Destruction: daemon}
	if b.nodes != nil {
		c.Distributor = b.nodes.PID
	}
	b.cluster = b.Start("clusterconfig", clusterconfig.Props(c))
}

// expectPublished expects ConfigPublished at the subscriber.
func (b *bench) expectPublished() *model.Config {
	b.Helper()
	m := kittest.Expect[*clusterconfig.ConfigPublished](b.others)
	require.Zero(b, m.Request)
	return m.Config
}

// locked tells the holders of the configuration lock.
func (b *bench) locked(holders map[lock.Owner]lock.Mode) { b.holds(holders, lock.Owner{}) }

func (b *bench) holds(holders map[lock.Owner]lock.Mode, bgl lock.Owner) {
	if holders == nil {
		holders = map[lock.Owner]lock.Mode{}
	}
	b.Send(b.cluster, &locks.ConfigLocks{Config: holders, BGL: bgl})
	b.Settle()
}

// send sends a call and returns its number. args are JSON.
func (b *bench) send(method, args string) uint64 {
	b.Helper()
	var list []json.RawMessage
	require.NoError(b, json.Unmarshal([]byte(args), &list))
	call, err := calls.Parse(method, list)
	require.NoError(b, err, "%s %s", method, args)
	b.number++
	b.client.Ask(b.cluster, &clusterconfig.Call{Request: b.number, Call: call, Caller: reserve.Caller{PID: b.pid, UID: 1000, Program: "python3"}})
	b.Settle()
	return b.number
}

// expect expects the answer to a call, as result or as the text of an error.
func (b *bench) expect(number uint64) (string, error) {
	b.Helper()
	m := kittest.Expect[*clusterconfig.CallResult](b.client)
	require.Equal(b, number, m.Request)
	switch {
	case m.Error != nil:
		return "", errors.New(m.Error.Error())
	case m.Snapshot != nil:
		return string(m.Snapshot.Config.JSON()), nil
	}
	return string(m.Result), nil
}

// call makes a call that succeeds, and returns its result.
func (b *bench) call(method, args string) string {
	b.Helper()
	result, err := b.expect(b.send(method, args))
	require.NoError(b, err, "%s %s", method, args)
	return result
}

// fails makes a call that fails, and returns the text of its error.
func (b *bench) fails(method, args string) string {
	b.Helper()
	_, err := b.expect(b.send(method, args))
	require.Error(b, err, "%s %s", method, args)
	return err.Error()
}

// current is the configuration that readers get.
func (b *bench) current() *model.Config {
	b.Helper()
	return configtest.Decode(b, []byte(b.call("readConfig", `[]`)))
}

// startStorage starts a storage with the fresh configuration.
func startStorage(t testing.TB, e *kittest.Env) *configstoretest.Storage {
	return configstoretest.Start(t, e, fresh(t))
}

// noLockCall checks that the lock manager was not called.
func (b *bench) noLockCall() {
	b.Helper()
	for _, m := range b.locks.Unread() {
		require.IsType(b, &locks.SetBypassLimit{}, m)
	}
}

// lockCall expects a call to the lock manager and answers it.
func (b *bench) lockCall(f *messages.Failure) locks.Operation {
	b.Helper()
	m := kittest.Expect[*locks.Operate](b.locks)
	b.locks.Ask(b.cluster, &locks.OperateResult{Request: m.Request, Value: []any{}, Failure: f})
	b.Settle()
	return m.Operation
}

// instance is the stored instance i, with another name.
func (b *bench) instance(c *model.Config, name string) string {
	o, found := c.Instances.Get("i")
	require.True(b, found)
	i := o.Value
	i.Name = model.Some(name)
	return string(model.Instances.NewObject(i).JSON())
}
