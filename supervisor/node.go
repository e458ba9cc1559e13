package supervisor

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/replicator"
	"lockstep/actors/standby"
	"lockstep/actors/store"
	"lockstep/core/replication"
	"lockstep/messages"
)

// Cluster is what a node of a cluster has beside what one alone has (design.md
// 9).
type Cluster struct {
	Log   replicator.Log
	Peers replicator.Peers
	// Tunnels carry clients to the master, where they ask for it.
	Tunnels standby.Tunnels
	Name    string // of this node
	Self    replication.Applier
	// Mastership is told that the master part of the tree has started, or has
	// stopped: who takes connections sends them there, or to the reception. It must
	// not block.
	Mastership func(*Running)
	// Members is told who belongs to the cluster. It must not block.
	Members func([]*messages.Member)
}

const (
	nodeRoot       = "node"
	nodeStoreName  = nodeRoot + "/store"
	replicatorName = nodeRoot + "/replicator"
	masterName     = nodeRoot + "/master"
	receptionName  = nodeRoot + "/reception"
)

// node is what runs on every node of a cluster. The master part of the tree is not
// below it, so that actors have the same names in a cluster and alone; it lives and
// ends at the word of the master actor.
var node = group{
	name: nodeRoot,
	policy: kit.Policy{
		Scope: kit.AllForOne, Backoff: 50 * time.Millisecond, BackoffMax: 2 * time.Second,
		Limit: 10, Window: 2 * time.Minute, OnGiveUp: kit.Stop,
	},
	children: []child{
		{name: "store", why: "what was asked of it is lost with it, and asked again", drain: true, props: nodeStoreProps},
		{name: "master", why: "before the replicator, which tells it what to do", props: masterProps},
		{name: "replicator", why: "attaches to the log as soon as it starts", props: replicatorProps},
		{name: "reception", why: "answers where this node is not the master", props: receptionProps},
	},
}

func nodeStoreProps(p Ports, s Settings) *actor.Props {
	return store.Props(store.Config{Env: p.Env, Files: p.Files, Writers: s.Writers, Clients: []*actor.PID{p.Env.PID(replicatorName)}})
}

func replicatorProps(p Ports, _ Settings) *actor.Props {
	c := p.Cluster
	return replicator.Props(replicator.Config{Env: p.Env, Log: c.Log, Peers: c.Peers, Store: p.Env.PID(nodeStoreName), Master: p.Env.PID(masterName), Reception: p.Env.PID(receptionName),
		Clients: clients(p), Members: c.Members, Name: c.Name, Self: c.Self})
}

func receptionProps(p Ports, s Settings) *actor.Props {
	return standby.Props(standby.Config{Env: p.Env, Nodes: p.Env.PID(replicatorName), Tunnels: p.Cluster.Tunnels, Name: p.Cluster.Name, About: s.About})
}

func masterProps(p Ports, s Settings) *actor.Props {
	tree := &mastered{} // also of a former incarnation of the actor
	return p.Env.Props("master", func() actor.Actor { return &master{ports: p, settings: s, mastered: tree} })
}

// mastered is the master part of the tree.
type mastered struct {
	running  *Running // nil: there is none
	stopping bool     // it was told to
}

// master starts and stops the master part of the tree with the leadership.
type master struct {
	ports    Ports
	settings Settings
	order    *messages.BecomeMaster
	*mastered
}

func (m *master) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		if m.running != nil {
			ctx.Watch(m.running.Root)
		}
	case *messages.BecomeMaster:
		m.order = msg
		m.start(ctx)
	case *messages.ResignMaster:
		m.order = nil
		m.stop(ctx)
	case *actor.Terminated:
		m.ended(ctx, msg.Who)
	default:
		kit.Unexpected(ctx)
	}
}

// start starts the tree, once that of a former mastership is gone. One that runs is
// told of a new term by its store.
func (m *master) start(ctx actor.Context) {
	if m.running != nil {
		return
	}
	settings := m.settings
	settings.Fence = time.Duration(m.order.FenceMs) * time.Millisecond
	running, err := Tree(m.ports, settings)
	if err != nil {
		panic(fmt.Errorf("the master part of the tree: %w", err))
	}
	ctx.Watch(running.Root)
	m.running, m.stopping = running, false
	m.ports.Cluster.Mastership(running)
	ctx.Send(m.ports.Env.PID(receptionName), m.order)
}

func (m *master) stop(ctx actor.Context) {
	if m.running != nil && !m.stopping {
		m.stopping = true
		m.ports.Cluster.Mastership(nil)
		ctx.Stop(m.running.Root)
	}
}

// ended: a tree that was not told to stop has failed too often, and this node with it.
func (m *master) ended(ctx actor.Context, who *actor.PID) {
	if m.running == nil || !m.running.Root.Equal(who) {
		return
	}
	m.running = nil
	if !m.stopping {
		m.ports.Cluster.Mastership(nil)
		ctx.Stop(ctx.Parent())
		return
	}
	m.stopping = false
	if m.order != nil {
		m.start(ctx)
	}
}

// RunningNode is a started node of a cluster.
type RunningNode struct {
	// Root answers Drain with Drained when nothing is on its way to the disk. It is
	// stopped after the master part of the tree.
	Root *actor.PID
	// Reception takes connections where there is no master part.
	Reception *actor.PID
	Done      <-chan struct{} // as Running.Done
}

// Node starts the actors of one node of a cluster; p.Cluster says of which.
func Node(p Ports, s Settings) (*RunningNode, error) {
	pid, done, err := p.Env.SpawnRoot(node.props(p, s), nodeRoot)
	if err != nil {
		return nil, fmt.Errorf("start the actors: %w", err)
	}
	return &RunningNode{Root: pid, Reception: p.Env.PID(receptionName), Done: done}, nil
}

// Replicator is the address of a node's replicator, for ports that ask it.
func Replicator(env *kit.Env) *actor.PID { return env.PID(replicatorName) }
