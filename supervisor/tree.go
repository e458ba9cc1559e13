// Package supervisor is the actor tree as data: the parent of each actor, what happens to
// which actors when one fails, and the order of their start and stop. Tree is the only wiring
// of the actors; the daemon and the simulator pass different ports.
//
// It owns the supervisors of the groups. Its callers may start a tree (Tree, Node), ask its
// root for AnnounceQueue and Drain, and stop the root. A group that fails too often stops, and
// Running.Done or RunningNode.Done is closed. Supervisors keep nothing on the disk.
package supervisor

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config"
	"lockstep/actors/events"
	"lockstep/actors/filters"
	"lockstep/actors/jobs"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/luxi"
	"lockstep/actors/opcodes"
	"lockstep/actors/queue"
	"lockstep/actors/scheduler"
	"lockstep/actors/store"
	"lockstep/actors/wconfd"
	"lockstep/core/lock"
	"lockstep/core/opcode"
)

// Ports are the outside world, as the actors see it. Clock, log, randomness and
// mailboxes come with Env.
type Ports struct {
	Env        *kit.Env
	Files      store.Files
	Processes  jobs.Processes
	Owners     locks.Owners
	OnDecision func(took time.Duration) // the scheduler's decisions; nil: nobody measures them
	Events     events.Feed              // nil: nobody listens, and nothing is told
	Cluster    *Cluster                 // nil: this node is alone, and pays nothing for others
}

// Settings are what an operator can choose.
type Settings struct {
	Livelock  string // path of the daemon's own
	BootID    string // names the machine's present boot
	Locks     lock.Settings
	MaxStarts int // start handshakes in flight
	Writers   int // disk operations in flight
	Catalogue *opcode.Catalogue
	About     luxi.About
	NewUUID   func() string // names filter rules
	Limits    queue.Limits
	Fence     time.Duration   // see jobs.Config and locks.Config; of a new master
	Patience  jobs.RetryLimit // with jobs that cannot be started
}

// DefaultLimits are such that a large site does not come near them.
func DefaultLimits() queue.Limits {
	return queue.Limits{Unfinished: 1_000_000, Ops: 10_000, JobBytes: 16 << 20}
}

// Names of the actors that others talk to.
const (
	rootName    = "daemon"
	storeName   = rootName + "/core/store"
	schedName   = rootName + "/core/scheduler"
	locksName   = rootName + "/core/locks"
	configName  = rootName + "/core/cluster"
	filtersName = rootName + "/core/filters"
	jobsName    = rootName + "/jobs"
	queueName   = rootName + "/queue"
	luxiName    = rootName + "/luxi"
	wconfdName  = rootName + "/wconf"
	eventsName  = rootName + "/events"
)

// group is a supervisor: its policy for its children, and the children in the order of their
// start. They drain in reverse order.
type group struct {
	name     string
	policy   kit.Policy
	children []child
}

// child is one actor, or a group. why is the reason of its position in the tree.
type child struct {
	name         string
	why          string
	drains       bool // has something to finish before the daemon may stop
	reportsReady bool // its answer to AnnounceQueue is the daemon's
	props        func(Ports, Settings) *actor.Props
	group        *group
	// enabled reports whether the child exists at all; nil: always.
	enabled func(Ports) bool
}

// tree is the whole of it. A PID survives its actor's restart, and so does the
// mailbox behind it: actors know each other by name, once and for all.
var tree = group{
	name: rootName,
	policy: kit.Policy{
		Scope: kit.OneForOne, Backoff: 100 * time.Millisecond, BackoffMax: 5 * time.Second,
		Limit: 10, Window: 2 * time.Minute, OnGiveUp: kit.Stop,
	},
	children: []child{
		{name: "core", why: "what decides and what is on the disk must agree: rebuilt together", group: &core},
		{name: "jobs", why: "before the queue, which asks at once what is in hand; its crash touches no process",
			drains: true, props: jobsProps},
		{name: "queue", why: "reads the disk again and survives a restart of core", drains: true, reportsReady: true, props: queueProps},
		{name: "luxi", why: "last to start and first to stop: clients find a daemon that works", drains: true, props: luxiProps},
		{name: "wconf", why: "as luxi", drains: true, props: wconfdProps},
		{name: "events", why: "nobody waits for it, and it asks for what it needs", props: eventsProps, enabled: hasFeed},
	},
}

var core = group{
	name: "core",
	policy: kit.Policy{
		Scope: kit.AllForOne, Backoff: 50 * time.Millisecond, BackoffMax: 2 * time.Second,
		Limit: 5, Window: time.Minute, OnGiveUp: kit.Escalate,
	},
	children: []child{
		{name: "store", why: "everybody needs the disk; in a cluster the replicator is the store", drains: true, props: storeProps, enabled: isStandalone},
		{name: "locks", why: "its memory and its journal must agree", drains: true, props: locksProps},
		{name: "cluster", why: "it asks for locks", props: configProps},
		{name: "filters", why: "its rules are the configuration's", props: filtersProps},
		{name: "scheduler", why: "its state is made anew from the queue's", props: schedulerProps},
	},
}

func storeProps(p Ports, s Settings) *actor.Props {
	return store.Props(store.Config{Env: p.Env, Files: p.Files, Writers: s.Writers, Clients: storeClients(p)})
}

// storeClients are the store's.
func storeClients(p Ports) []*actor.PID {
	return []*actor.PID{p.Env.PID(locksName), p.Env.PID(configName), p.Env.PID(queueName), p.Env.PID(jobsName), p.Env.PID(luxiName)}
}

// isStandalone: this node belongs to no cluster.
func isStandalone(p Ports) bool { return p.Cluster == nil }

// storeOf is the actor to which the master's files go.
func storeOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return p.Env.PID(storeName)
	}
	return replicatorOf(p)
}

// replicatorOf is nil for a node that is alone.
func replicatorOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return nil
	}
	return p.Env.PID(replicatorName)
}

// leadershipCheck says whether this node is the master for certain; nil: it always is.
func leadershipCheck(p Ports) func() bool {
	if isStandalone(p) {
		return nil
	}
	return p.Cluster.Log.Leads
}

// daemonOwner is the daemon as an owner of locks, for one purpose.
func daemonOwner(s Settings, purpose string) lock.Owner {
	return lock.NamedOwner("lockstepd-"+purpose, s.Livelock, s.About.PID)
}

func locksProps(p Ports, s Settings) *actor.Props {
	return locks.Props(locks.Config{Env: p.Env, Store: storeOf(p), Queue: p.Env.PID(queueName),
		Scheduler:   p.Env.PID(schedName),
		Clients:     subscribers(p, configName, wconfdName, luxiName),
		Subscribers: subscribers(p),
		Owners:      p.Owners, Settings: s.Locks, Boot: s.BootID, Self: daemonOwner(s, "destruction"), Fence: s.Fence})
}

func configProps(p Ports, s Settings) *actor.Props {
	return config.Props(config.Config{Env: p.Env, Store: storeOf(p), Locks: p.Env.PID(locksName),
		Subscribers: subscribers(p, locksName, filtersName, schedName, queueName),
		Self:        daemonOwner(s, "config")})
}

func filtersProps(p Ports, _ Settings) *actor.Props {
	return filters.Props(filters.Config{Env: p.Env, Queue: p.Env.PID(queueName), ClusterConfig: p.Env.PID(configName)})
}

func wconfdProps(p Ports, _ Settings) *actor.Props {
	return wconfd.Props(wconfd.Config{Env: p.Env, Locks: p.Env.PID(locksName), ClusterConfig: p.Env.PID(configName), Leads: leadershipCheck(p)})
}

func schedulerProps(p Ports, s Settings) *actor.Props {
	return scheduler.Props(scheduler.Config{Env: p.Env, Queue: p.Env.PID(queueName), Locks: p.Env.PID(locksName),
		ClusterConfig: p.Env.PID(configName), Catalogue: s.Catalogue, Decided: p.OnDecision})
}

func jobsProps(p Ports, s Settings) *actor.Props {
	return jobs.Props(jobs.Config{Env: p.Env, Store: storeOf(p), Queue: p.Env.PID(queueName),
		Scheduler: p.Env.PID(schedName), Processes: p.Processes, MaxStarts: s.MaxStarts, RetryLimit: s.Patience,
		Leads: leadershipCheck(p), Replicator: replicatorOf(p), Fence: s.Fence})
}

func queueProps(p Ports, s Settings) *actor.Props {
	return queue.Props(queue.Config{Env: p.Env, Store: storeOf(p), Scheduler: p.Env.PID(schedName),
		Jobs: p.Env.PID(jobsName), Locks: p.Env.PID(locksName), ClusterConfig: p.Env.PID(configName), Filters: p.Env.PID(filtersName), Catalogue: s.Catalogue, Gateways: subscribers(p, luxiName), Livelock: s.Livelock, Limits: s.Limits, Shared: !isStandalone(p)})
}

func luxiProps(p Ports, s Settings) *actor.Props {
	return luxi.Props(luxi.Config{Env: p.Env, Queue: p.Env.PID(queueName), Jobs: p.Env.PID(jobsName),
		Store: storeOf(p), Locks: p.Env.PID(locksName), Scheduler: p.Env.PID(schedName), Filters: p.Env.PID(filtersName),
		ClusterConfig: p.Env.PID(configName), Catalogue: s.Catalogue, NewUUID: s.NewUUID, About: s.About, Leads: leadershipCheck(p), Nodes: replicatorOf(p)})
}

// hasFeed reports whether events are published.
func hasFeed(p Ports) bool { return p.Events != nil }

// subscribers returns the actors with these names, and the events actor if there is a feed.
func subscribers(p Ports, names ...string) []*actor.PID {
	if hasFeed(p) {
		names = append(names, eventsName)
	}
	var pids []*actor.PID
	for _, name := range names {
		pids = append(pids, p.Env.PID(name))
	}
	return pids
}

func eventsProps(p Ports, _ Settings) *actor.Props {
	return events.Props(events.Config{Env: p.Env, Queue: p.Env.PID(queueName), ClusterConfig: p.Env.PID(configName), Feed: p.Events})
}

// Locks is the lock manager's address, for the port that tells it of dead owners
// (messages.OwnerDied).
func Locks(env *kit.Env) *actor.PID { return env.PID(locksName) }

// SetOpcodes tells everybody concerned what operators have declared, see
// opcodes.Changed.
func SetOpcodes(env *kit.Env, catalogue *opcode.Catalogue) {
	for _, name := range []string{queueName, schedName, luxiName} {
		env.System().Root.Send(env.PID(name), &opcodes.Changed{Catalogue: catalogue})
	}
}

// Running is a started tree.
type Running struct {
	// Root answers AnnounceQueue when the queue takes requests: only then are there
	// actors to take a connection. It answers Drain with Drained when everything
	// accepted is on the disk and no start is in flight; it may be stopped then.
	// Job processes go on.
	Root *actor.PID
	// Luxi and Wconf take connections, as conn.Opened.
	Luxi, Wconfd *actor.PID
	// Done is closed when the tree has stopped: because Root was, or because
	// part of it has failed too often to go on.
	Done <-chan struct{}
}

// Tree starts the actors of one daemon.
func Tree(p Ports, s Settings) (*Running, error) {
	pid, done, err := p.Env.SpawnRoot(tree.props(p, s), rootName)
	if err != nil {
		return nil, fmt.Errorf("start the actors: %w", err)
	}
	return &Running{Root: pid, Luxi: p.Env.PID(luxiName), Wconfd: p.Env.PID(wconfdName), Done: done}, nil
}
