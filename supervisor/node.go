package supervisor

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/configstore"
	"lockstep/actors/config/ssconf"
	"lockstep/actors/kit"
	"lockstep/actors/replicator"
	"lockstep/actors/standby"
	"lockstep/actors/store"
	"lockstep/core/config"
	"lockstep/core/replication"
	"lockstep/messages"
)

// Cluster has what a node of a cluster takes from the outside beside what every daemon does: the consensus log, peers, and their
// settings.
type Cluster struct {
	Log   replicator.Log
	Peers replicator.Peers
	// Tunnels connect clients of this node to the master.
	Tunnels standby.Tunnels
	Name    string // of this node
	Applier replication.Applier
	Times   replication.Times // see replicator.Config
	// OnMastership is called when the master part of the tree has started, and with nil when
	// it has stopped: new connections go to its gateways, or to the standby actor. It must
	// not block.
	OnMastership func(*Running)
	// OnMembers is called with the members of the cluster. It must not block.
	OnMembers func([]*messages.Member)
}

const (
	nodeRoot            = "node"
	nodeStoreName       = nodeRoot + "/store"
	nodeConfigstoreName = nodeRoot + "/configstore"
	replicatorName      = nodeRoot + "/replicator"
	masterName          = nodeRoot + "/master"
	standbyName         = nodeRoot + "/standby"
	nodeSsconfName      = nodeRoot + "/beside/ssconf"
)

// node is the tree of every node of a cluster. The master part is not below it, so that its
// actors have the same names in a cluster and on a single node. The master actor starts and stops
// the master part.
var node = group{
	name: nodeRoot,
	policy: kit.Policy{
		Scope: kit.AllForOne, Backoff: 50 * time.Millisecond, BackoffMax: 2 * time.Second,
		Limit: 10, Window: 2 * time.Minute, OnGiveUp: kit.Stop,
	},
	children: []child{
		{name: "store", why: "what was asked of it is lost with it, and asked again", drains: true, props: nodeStoreProps},
		{name: "configstore", why: "keeps this node's copy of the configuration, also while another node is the master",
			drains: true, props: nodeConfigstoreProps},
		{name: "master", why: "before the replicator, which tells it what to do", props: masterProps},
		{name: "replicator", why: "attaches to the log as soon as it starts", props: replicatorProps},
		{name: answersName, why: "it shows the configuration of this node, whether there is a master or not", group: &answers},
		{name: "standby", why: "answers where this node is not the master", props: standbyProps},
		{name: "beside", why: "no actor waits for them, and their crashes restart no other actor", group: &besideNode},
	},
}

// besideNode are the actors of a node that only listen.
var besideNode = group{
	name: "beside",
	policy: kit.Policy{
		Scope: kit.OneForOne, Backoff: 100 * time.Millisecond, BackoffMax: 5 * time.Second,
		Limit: 10, Window: 2 * time.Minute, OnGiveUp: kit.Escalate,
	},
	children: []child{
		{name: "ssconf", why: "writes the files of this node from this node's copy of the configuration", props: nodeSsconfProps},
	},
}

func nodeStoreProps(p Ports, s Settings) *actor.Props {
	return store.Props(store.Config{
		Env:     p.Env,
		Files:   p.Files,
		Writers: s.Writers,
		Clients: []*actor.PID{p.Env.PID(replicatorName), p.Env.PID(nodeConfigstoreName), p.Env.PID(nodeSsconfName)},
	})
}

func nodeConfigstoreProps(p Ports, s Settings) *actor.Props {
	return configstore.Props(configstore.Config{
		Env:         p.Env,
		Store:       p.Env.PID(nodeStoreName),
		Clients:     []*actor.PID{p.Env.PID(replicatorName)},
		Subscribers: append([]*actor.PID{p.Env.PID(nodeSsconfName)}, configstoreSubscribers(p)...),
		Secrets:     s.Secrets,
		Prepared:    s.Prepared,
	})
}

func nodeSsconfProps(p Ports, _ Settings) *actor.Props {
	return ssconf.Props(ssconf.Config{
		Env:         p.Env,
		Store:       p.Env.PID(nodeStoreName),
		ConfigStore: p.Env.PID(nodeConfigstoreName),
		Release:     config.SoftwareVersion,
	})
}

func replicatorProps(p Ports, _ Settings) *actor.Props {
	c := p.Cluster
	return replicator.Props(replicator.Config{
		Env:                p.Env,
		Log:                c.Log,
		Peers:              c.Peers,
		Store:              p.Env.PID(nodeStoreName),
		ConfigStore:        p.Env.PID(nodeConfigstoreName),
		Master:             p.Env.PID(masterName),
		Standby:            p.Env.PID(standbyName),
		Clients:            storeClients(p),
		ConfigStoreClients: []*actor.PID{p.Env.PID(clusterconfigName)},
		Members:            c.OnMembers,
		Monitor:            monitorOf(p),
		Name:               c.Name,
		Self:               c.Applier,
		Times:              c.Times,
	})
}

func standbyProps(p Ports, s Settings) *actor.Props {
	return standby.Props(standby.Config{
		Env:        p.Env,
		Replicator: p.Env.PID(replicatorName),
		Store:      p.Env.PID(nodeStoreName),
		Policy:     s.Access,
		Tunnels:    p.Cluster.Tunnels,
		Name:       p.Cluster.Name,
		About:      s.About,
	})
}

func masterProps(p Ports, s Settings) *actor.Props {
	tree := &masterTree{} // shared with the actor's next incarnation
	return p.Env.Props("master", func() actor.Actor { return &master{ports: p, settings: s, masterTree: tree} })
}

// masterTree is the master part of the tree as its starter knows it: running, being stopped, or absent.
type masterTree struct {
	running  *Running // nil: there is none
	stopping bool     // its root was stopped
}

// master starts and stops the master part of the tree with the leadership.
type master struct {
	ports    Ports
	settings Settings
	command  *messages.BecomeMaster
	*masterTree
}

func (m *master) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		if m.running != nil {
			ctx.Watch(m.running.Root)
		}
	case *messages.BecomeMaster:
		m.command = msg
		m.start(ctx)
	case *messages.ResignMaster:
		m.command = nil
		m.stop(ctx)
	case *actor.Terminated:
		m.treeEnded(ctx, msg.Who)
	default:
		kit.Unexpected(ctx)
	}
}

// start starts the tree when that of a former mastership has stopped. A running tree gets a
// new term from its store.
func (m *master) start(ctx actor.Context) {
	if m.running != nil {
		return
	}
	settings := m.settings
	settings.Fence = time.Duration(m.command.FenceMs) * time.Millisecond
	running, err := Tree(m.ports, settings)
	if err != nil {
		panic(fmt.Errorf("start the master part of the tree: %w", err))
	}
	ctx.Watch(running.Root)
	m.running, m.stopping = running, false
	m.ports.Cluster.OnMastership(running)
	ctx.Send(m.ports.Env.PID(standbyName), m.command)
}

func (m *master) stop(ctx actor.Context) {
	if m.running != nil && !m.stopping {
		m.stopping = true
		m.ports.Cluster.OnMastership(nil)
		ctx.Stop(m.running.Root)
	}
}

// treeEnded handles the end of the tree. A tree that stops without a command has failed too
// often, and this node stops too.
func (m *master) treeEnded(ctx actor.Context, pid *actor.PID) {
	if m.running == nil || !m.running.Root.Equal(pid) {
		return
	}
	m.running = nil
	if !m.stopping {
		m.ports.Cluster.OnMastership(nil)
		ctx.Stop(ctx.Parent())
		return
	}
	m.stopping = false
	if m.command != nil {
		m.start(ctx)
	}
}

// RunningNode is a started node of a cluster: the actors that the program talks to, and the sign that all have stopped.
type RunningNode struct {
	// Root answers Drain with DrainResult when nothing is on its way to the disk. It is
	// stopped after the master part of the tree.
	Root *actor.PID
	// Standby gets connections while this node is not the master.
	Standby *actor.PID
	Done    <-chan struct{} // as Running.Done
}

// Node starts the actors of one node of a cluster; p.Cluster says of which.
func Node(p Ports, s Settings) (*RunningNode, error) {
	pid, done, err := p.Env.SpawnRoot(node.props(p, s), nodeRoot)
	if err != nil {
		return nil, fmt.Errorf("start the actors: %w", err)
	}
	return &RunningNode{Root: pid, Standby: p.Env.PID(standbyName), Done: done}, nil
}

// StopMaster stops the master part of the tree, for the orderly stop of a node. Running.Done is closed when it has stopped.
// The master part must not be stopped by its root alone: the node would take that for the end of a tree that has failed too
// often, and stop while it is asked to drain.
func StopMaster(env *kit.Env) { env.System().Root.Send(env.PID(masterName), &messages.ResignMaster{}) }

// ConfigStore is the address of the storage of a node's copy of the configuration, for programs that write config.data on demand.
func ConfigStore(env *kit.Env) *actor.PID { return env.PID(nodeConfigstoreName) }

// Replicator is the address of a node's replicator, for ports that ask it.
func Replicator(env *kit.Env) *actor.PID { return env.PID(replicatorName) }
