package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lockstep/actors/kit"
	"lockstep/core/replication"
	"lockstep/edge/raftlog/logconformance"
	"lockstep/messages"
	"lockstep/sim/consensus"
	"lockstep/sim/kernel"
	"lockstep/sim/longtest"
)

func TestTheLogKeepsTheContract(t *testing.T) {
	logconformance.Run(t, func(t *testing.T) logconformance.Cluster { return newLogCluster(t) })
}

// logCluster is a set of nodes that have only a log.
type logCluster struct {
	*testing.T
	steps  *kernel.Kernel
	clock  *kernel.Clock
	log    *consensus.Log
	lives  map[string]*kernel.Lifetime
	groups map[string]int
	// isolated is the number of isolated groups; group 0 has the connected nodes.
	isolated int
}

func newLogCluster(t *testing.T) *logCluster {
	rng := rand.New(rand.NewPCG(1, 2))
	c := &logCluster{T: t, steps: kernel.New(rng), clock: kernel.NewClock(), lives: map[string]*kernel.Lifetime{}, groups: map[string]int{}}
	c.log = consensus.NewLog(c.steps, c.clock, rng)
	c.log.Partitioned = func(a, b string) bool { return c.groups[a] != c.groups[b] }
	return c
}

func (c *logCluster) Start(name string, o logconformance.Options) logconformance.Node {
	r := c.log.Replica(name)
	if r == nil {
		r = c.log.NewReplica(name)
	}
	r.Files = func() []*messages.FileWrite {
		files := o.Files()
		var writes []*messages.FileWrite
		for _, path := range slices.Sorted(maps.Keys(files)) {
			writes = append(writes, &messages.FileWrite{Path: path, Content: []byte(files[path])})
		}
		return writes
	}
	founded := r.Fresh()
	if o.Founder && founded {
		r.Found([]*messages.Member{{Name: name, Address: r.Address, Voter: true}})
	}
	l := &kernel.Lifetime{}
	c.lives[name] = l
	boxes := &mailboxes{kernel: c.steps, life: l, observe: func(string, any, messageKind) panicWhen { return noPanic }}
	env := kit.New(kit.Options{Log: traceLog(&trace{clock: c.clock, sum: fnvOffset}, ""), Clock: actorClock{c.clock, l}, Mailbox: boxes.produce, Rand: rand.New(rand.NewPCG(3, 4)).Uint64})
	runs := r.Run(l, founded, func(to *actor.PID, what proto.Message) { env.System().Root.Send(to, what) })
	return logconformance.Node{Log: runs,
		Spawn: func(a actor.Actor) *actor.PID {
			return env.System().Root.Spawn(env.Props("app", func() actor.Actor { return a }))
		},
		Tell: func(to *actor.PID, what any) { env.System().Root.Send(to, what) }}
}

func (c *logCluster) Stop(name string) {
	c.lives[name].Over = true
	c.log.Replica(name).End()
}

func (c *logCluster) Wipe(name string) { c.log.Replica(name).Wipe() }
func (c *logCluster) Isolate(name string) {
	c.isolated++
	c.groups[name] = c.isolated
}
func (c *logCluster) Heal()               { clear(c.groups) }
func (c *logCluster) Compact(name string) { c.log.Replica(name).Compact() }
func (c *logCluster) Trailing() int       { return consensus.Trailing }

func (c *logCluster) Address(name string) string { return name + ":1" }

func (c *logCluster) Until(what string, done func() bool) {
	c.Helper()
	end := c.clock.Now().Add(10 * time.Minute)
	for !done() {
		require.True(c, c.clock.Now().Before(end), "in ten minutes: %s", what)
		if !c.steps.Step() {
			require.True(c, c.clock.Fire(), what)
		}
	}
}

// leadersAtOnce runs a cluster with many transfers, and returns the step at which two nodes have
// the lease; 0: none.
func leadersAtOnce(seed uint64, orderSuffices bool) uint64 {
	w := New(Options{Seed: seed, Nodes: 3, Checkers: []Checker{}})
	w.log.Mutations.OrderSuffices = orderSuffices
	w.injector.clusterRates = ClusterFaultRates{Partition: 300, Slow: 300, Pause: 300, Transfer: 500}
	return w.stepUntilTwoLead(5000, func(*node) {})
}

// stepUntilTwoLead starts all nodes and makes at most this number of steps. It returns the step at which two nodes have the lease; 0: none.
// It calls look for each running node after each step.
func (w *World) stepUntilTwoLead(steps int, look func(*node)) uint64 {
	w.restartAfter = restartDelay
	for _, n := range w.nodes {
		n.startAgain()
	}
	for range steps {
		w.Step()
		lead := 0
		for _, n := range w.nodes {
			if n.daemon == nil {
				continue
			}
			if n.cluster.replica.Active.Leads() {
				lead++
			}
			look(n)
		}
		if lead > 1 {
			return w.stepCount
		}
	}
	return 0
}

// The lease of a leader that is cut off always ends before another leader is elected.
func TestOneLeaseAtATime(t *testing.T) {
	for seed := range longtest.Times(uint64(100)) {
		require.Zero(t, leadersAtOnce(seed, false), "seed %d", seed)
	}
	require.Less(t, replication.Lease, replication.ElectionMin)
}
