// Package supervisor is the actor tree as data: who is whose child, what
// happens to whom when one fails, in which order they stop. Tree is the only
// wiring there is; the daemon and the simulator differ in the ports they pass.
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
	"lockstep/actors/queue"
	"lockstep/actors/scheduler"
	"lockstep/actors/store"
	"lockstep/actors/wconfd"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// Ports are the outside world, as the actors see it. Clock, log, randomness and
// mailboxes come with Env.
type Ports struct {
	Env       *kit.Env
	Files     store.Files
	Processes jobs.Processes
	Owners    locks.Owners
	Decided   func(took time.Duration) // the scheduler's decisions; nil: nobody measures them
	Events    events.Feed              // nil: nobody listens, and nothing is told
	Cluster   *Cluster                 // nil: this node is alone, and pays nothing for others
}

// Settings are what an operator can choose.
type Settings struct {
	Livelock  string // path of the daemon's own
	Boot      string // names the machine's present boot
	Locks     lock.Settings
	MaxStarts int // start handshakes in flight
	Writers   int // disk operations in flight
	Catalogue *opcode.Catalogue
	About     luxi.About
	NewUUID   func() string // names filter rules
	Limits    queue.Limits
	Fence     time.Duration // see jobs.Config and locks.Config; of a new master
	Patience  jobs.Patience // with jobs that cannot be started
}

// DefaultLimits are such that a large site does not come near them.
func DefaultLimits() queue.Limits {
	return queue.Limits{Unfinished: 1_000_000, Ops: 10_000, JobBytes: 16 << 20}
}

// Names of the actors that others talk to.
const (
	root      = "daemon"
	storeName = root + "/core/store"
	schedName = root + "/core/scheduler"
	locksName = root + "/core/locks"
	confName  = root + "/core/cluster"
	filtName  = root + "/core/filters"
	jobsName  = root + "/jobs"
	queueName = root + "/queue"
	luxiName  = root + "/luxi"
	wconfName = root + "/wconf"
	newsName  = root + "/events"
)

// group is a supervisor: its policy for its children, and these in the order in
// which they start. They are told to drain in reverse.
type group struct {
	name     string
	policy   kit.Policy
	children []child
}

// child is one actor, or a group. why says what its place in the tree is for.
type child struct {
	name  string
	why   string
	drain bool // has something to finish before the daemon may stop
	ready bool // its answer to AskReady is the daemon's
	props func(Ports, Settings) *actor.Props
	group *group
	// wanted says whether it is there at all; nil: always.
	wanted func(Ports) bool
}

// tree is the whole of it. A PID survives its actor's restart, and so does the
// mailbox behind it: actors know each other by name, once and for all.
var tree = group{
	name: root,
	policy: kit.Policy{
		Scope: kit.OneForOne, Backoff: 100 * time.Millisecond, BackoffMax: 5 * time.Second,
		Limit: 10, Window: 2 * time.Minute, OnGiveUp: kit.Stop,
	},
	children: []child{
		{name: "core", why: "what decides and what is on the disk must agree: rebuilt together", group: &core},
		{name: "jobs", why: "before the queue, which asks at once what is in hand; its crash touches no process",
			drain: true, props: jobsProps},
		{name: "queue", why: "reads the disk again and survives a restart of core", drain: true, ready: true, props: queueProps},
		{name: "luxi", why: "last to start and first to stop: clients find a daemon that works", drain: true, props: luxiProps},
		{name: "wconf", why: "as luxi", drain: true, props: wconfProps},
		{name: "events", why: "nobody waits for it, and it asks for what it needs", props: eventsProps, wanted: listened},
	},
}

var core = group{
	name: "core",
	policy: kit.Policy{
		Scope: kit.AllForOne, Backoff: 50 * time.Millisecond, BackoffMax: 2 * time.Second,
		Limit: 5, Window: time.Minute, OnGiveUp: kit.Escalate,
	},
	children: []child{
		{name: "store", why: "everybody needs the disk; in a cluster the replicator is the store", drain: true, props: storeProps, wanted: alone},
		{name: "locks", why: "its memory and its journal must agree", drain: true, props: locksProps},
		{name: "cluster", why: "it asks for locks", props: clusterProps},
		{name: "filters", why: "its rules are the configuration's", props: filtersProps},
		{name: "scheduler", why: "its state is made anew from the queue's", props: schedulerProps},
	},
}

func storeProps(p Ports, s Settings) *actor.Props {
	return store.Props(store.Config{Env: p.Env, Files: p.Files, Writers: s.Writers, Clients: clients(p)})
}

// clients are the store's.
func clients(p Ports) []*actor.PID {
	return []*actor.PID{p.Env.PID(locksName), p.Env.PID(confName), p.Env.PID(queueName), p.Env.PID(jobsName), p.Env.PID(luxiName)}
}

// alone: this node belongs to no cluster.
func alone(p Ports) bool { return p.Cluster == nil }

// storeOf is the actor to which the master's files go.
func storeOf(p Ports) *actor.PID {
	if alone(p) {
		return p.Env.PID(storeName)
	}
	return replicatorOf(p)
}

// replicatorOf is nil for a node that is alone.
func replicatorOf(p Ports) *actor.PID {
	if alone(p) {
		return nil
	}
	return p.Env.PID(replicatorName)
}

// leads says whether this node is the master for certain; nil: it always is.
func leads(p Ports) func() bool {
	if alone(p) {
		return nil
	}
	return p.Cluster.Log.Leads
}

// self is the daemon as an owner of locks, for one purpose.
func self(s Settings, purpose string) lock.Owner {
	return lock.NamedOwner("lockstepd-"+purpose, s.Livelock, s.About.PID)
}

func locksProps(p Ports, s Settings) *actor.Props {
	return locks.Props(locks.Config{Env: p.Env, Store: storeOf(p), Queue: p.Env.PID(queueName),
		Scheduler: p.Env.PID(schedName),
		Clients:   listeners(p, confName, wconfName, luxiName),
		Followers: listeners(p),
		Owners:    p.Owners, Settings: s.Locks, Boot: s.Boot, Self: self(s, "destruction"), Fence: s.Fence})
}

func clusterProps(p Ports, s Settings) *actor.Props {
	return config.Props(config.Config{Env: p.Env, Store: storeOf(p), Locks: p.Env.PID(locksName),
		Subscribers: listeners(p, locksName, filtName, schedName, queueName),
		Self:        self(s, "config")})
}

func filtersProps(p Ports, _ Settings) *actor.Props {
	return filters.Props(filters.Config{Env: p.Env, Queue: p.Env.PID(queueName), Cluster: p.Env.PID(confName)})
}

func wconfProps(p Ports, _ Settings) *actor.Props {
	return wconfd.Props(wconfd.Config{Env: p.Env, Locks: p.Env.PID(locksName), Cluster: p.Env.PID(confName), Leads: leads(p)})
}

func schedulerProps(p Ports, s Settings) *actor.Props {
	return scheduler.Props(scheduler.Config{Env: p.Env, Queue: p.Env.PID(queueName), Locks: p.Env.PID(locksName),
		Cluster: p.Env.PID(confName), Catalogue: s.Catalogue, Decided: p.Decided})
}

func jobsProps(p Ports, s Settings) *actor.Props {
	return jobs.Props(jobs.Config{Env: p.Env, Store: storeOf(p), Queue: p.Env.PID(queueName),
		Scheduler: p.Env.PID(schedName), Processes: p.Processes, MaxStarts: s.MaxStarts, Patience: s.Patience,
		Leads: leads(p), Replicator: replicatorOf(p), Fence: s.Fence})
}

func queueProps(p Ports, s Settings) *actor.Props {
	return queue.Props(queue.Config{Env: p.Env, Store: storeOf(p), Scheduler: p.Env.PID(schedName),
		Jobs: p.Env.PID(jobsName), Locks: p.Env.PID(locksName), Cluster: p.Env.PID(confName), Filters: p.Env.PID(filtName), Catalogue: s.Catalogue, Gateways: listeners(p, luxiName), Livelock: s.Livelock, Limits: s.Limits, Shared: !alone(p)})
}

func luxiProps(p Ports, s Settings) *actor.Props {
	return luxi.Props(luxi.Config{Env: p.Env, Queue: p.Env.PID(queueName), Jobs: p.Env.PID(jobsName),
		Store: storeOf(p), Locks: p.Env.PID(locksName), Scheduler: p.Env.PID(schedName), Filters: p.Env.PID(filtName),
		Cluster: p.Env.PID(confName), Catalogue: s.Catalogue, NewUUID: s.NewUUID, About: s.About, Leads: leads(p), Nodes: replicatorOf(p)})
}

// listened: there is a feed to tell.
func listened(p Ports) bool { return p.Events != nil }

// listeners are the actors of these names, and the one who listens to everything
// where there is one.
func listeners(p Ports, names ...string) []*actor.PID {
	if listened(p) {
		names = append(names, newsName)
	}
	var pids []*actor.PID
	for _, name := range names {
		pids = append(pids, p.Env.PID(name))
	}
	return pids
}

func eventsProps(p Ports, _ Settings) *actor.Props {
	return events.Props(events.Config{Env: p.Env, Queue: p.Env.PID(queueName), Cluster: p.Env.PID(confName), Feed: p.Events})
}

// Locks is the lock manager's address, for the port that tells it of dead owners
// (messages.OwnerDead).
func Locks(env *kit.Env) *actor.PID { return env.PID(locksName) }

// SetOpcodes tells everybody concerned what operators have declared, see
// messages.OpcodesChanged.
func SetOpcodes(env *kit.Env, definitions []byte) {
	for _, name := range []string{queueName, schedName, luxiName} {
		env.System().Root.Send(env.PID(name), &messages.OpcodesChanged{Definitions: definitions})
	}
}

// Running is a started tree.
type Running struct {
	// Root answers AskReady when the queue takes requests: only then are there
	// actors to take a connection. It answers Drain with Drained when everything
	// accepted is on the disk and no start is in flight; it may be stopped then.
	// Job processes go on.
	Root *actor.PID
	// Luxi and Wconf take connections, as conn.Opened.
	Luxi, Wconf *actor.PID
	// Done is closed when the tree has stopped: because Root was, or because
	// part of it has failed too often to go on.
	Done <-chan struct{}
}

// Tree starts the actors of one daemon.
func Tree(p Ports, s Settings) (*Running, error) {
	pid, done, err := p.Env.SpawnRoot(tree.props(p, s), root)
	if err != nil {
		return nil, fmt.Errorf("start the actors: %w", err)
	}
	return &Running{Root: pid, Luxi: p.Env.PID(luxiName), Wconf: p.Env.PID(wconfName), Done: done}, nil
}
