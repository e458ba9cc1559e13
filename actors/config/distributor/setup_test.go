package distributor_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/distributor"
	"lockstep/actors/kittest"
	"lockstep/core/config/model"
	"lockstep/core/distribution"
)

var errLost = errors.New("connection refused")

// daemons records the calls. The test ends them.
type daemons struct {
	mu   sync.Mutex
	open []call
}

type call struct {
	distribution.Send
	done func(distribution.Result)
}

// Send is part of distributor.Daemons.
func (d *daemons) Send(s distribution.Send, done func(distribution.Result)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, call{s, done})
}

// bench is a distributor between a client and node daemons.
type bench struct {
	testing.TB
	*kittest.Env
	daemons     *daemons
	client      *kittest.Probe
	distributor *actor.PID
	config      *model.Config
	number      uint64
}

// onBench runs a test with a configuration of a master n1 and a candidate n2.
func onBench(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{TB: t, Env: e, daemons: &daemons{}, client: e.Probe("client"), config: twoNodes(t)}
		b.distributor = e.Start("distributor", distributor.Props(distributor.Config{Env: e.Env, Daemons: b.daemons,
			Clients: []*actor.PID{b.client.PID}, Software: "3.0.2"}))
		require.Equal(t, &distributor.Started{Incarnation: 1}, kittest.Expect[*distributor.Started](b.client))
		f(t, b)
	})
}

func twoNodes(t testing.TB) *model.Config {
	raw, err := os.ReadFile("../../../core/config/testdata/config.data.json")
	require.NoError(t, err)
	c, err := model.Decode(raw)
	require.NoError(t, err)
	e := c.Edit()
	for uuid := range c.Nodes.All() {
		model.Nodes.Delete(e, uuid)
	}
	cluster := c.Cluster.Value
	cluster.MasterNode = "n1"
	e.SetCluster(cluster)
	for i := 1; i <= 2; i++ {
		id := fmt.Sprint("n", i)
		n := model.Node{Name: id, PrimaryIP: fmt.Sprint("192.0.2.", i), Group: "g", MasterCandidate: true}
		n.UUID = id
		model.Nodes.Put(e, id, n)
	}
	c, _ = e.Commit(1)
	return c
}

// change makes another configuration.
func (b *bench) change() {
	e := b.config.Edit()
	cluster := b.config.Cluster.Value
	cluster.Tags = []string{fmt.Sprint("t", b.config.Serial)}
	e.SetCluster(cluster)
	b.config, _ = e.Commit(b.config.MTime + 1)
}

func (b *bench) distribute() {
	b.client.Ask(b.distributor, &distributor.Distribute{Config: b.config})
	b.Settle()
}

func (b *bench) await() uint64 {
	b.number++
	b.client.Ask(b.distributor, &distributor.Await{Request: b.number})
	b.Settle()
	return b.number
}

func (b *bench) requireAnswered(number uint64) {
	b.Helper()
	require.Equal(b, &distributor.AwaitResult{Request: number}, kittest.Expect[*distributor.AwaitResult](b.client))
}

// calls returns the open calls as "node kind serial", sorted.
func (b *bench) calls() (all []string) {
	b.daemons.mu.Lock()
	defer b.daemons.mu.Unlock()
	for _, c := range b.daemons.open {
		all = append(all, fmt.Sprint(c.Node.Name, " ", c.Content.Kind, " ", c.Content.Serial-b.config.Serial))
	}
	slices.Sort(all)
	return all
}

// end ends all open calls of a node, "" for all nodes.
func (b *bench) end(node string, err error) {
	b.daemons.mu.Lock()
	var ended []call
	b.daemons.open = slices.DeleteFunc(b.daemons.open, func(c call) bool {
		ends := node == "" || c.Node.Name == node
		if ends {
			ended = append(ended, c)
		}
		return ends
	})
	b.daemons.mu.Unlock()
	for _, c := range ended {
		c.done(distribution.Result{Err: err})
	}
	b.Settle()
}

func (b *bench) nodes() *distributor.GetNodesResult {
	b.number++
	b.client.Ask(b.distributor, &distributor.GetNodes{Request: b.number})
	m := kittest.Expect[*distributor.GetNodesResult](b.client)
	require.Equal(b, b.number, m.Request)
	return m
}
