// Package supervisor defines the actor tree as a table: the parent of each actor, which actors
// are restarted when one fails, and the order of their start and stop. The daemon and the
// simulator start the same tree; they differ in the files, processes and sockets that they pass
// to it.
//
// It owns the supervisors of the groups. Its callers start a tree (Tree, Node), ask its root
// whether the queue has started (AnnounceQueue), have it refuse new work and answer what it has
// (Drain), and stop it. A group that fails too often stops, and Running.Done or RunningNode.Done
// is closed: the daemon then ends with an error. Supervisors keep nothing on the disk.
package supervisor

import (
	"fmt"
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/confd"
	"lockstep/actors/confdkey"
	"lockstep/actors/config"
	"lockstep/actors/configcheck"
	"lockstep/actors/configstore"
	"lockstep/actors/distributor"
	"lockstep/actors/events"
	"lockstep/actors/filters"
	"lockstep/actors/inquirer"
	"lockstep/actors/jobs"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/luxi"
	"lockstep/actors/opcodes"
	"lockstep/actors/queue"
	"lockstep/actors/scheduler"
	"lockstep/actors/sessions"
	"lockstep/actors/ssconf"
	"lockstep/actors/store"
	"lockstep/actors/wconfd"
	coreconfig "lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/noded"
	"lockstep/core/opcode"
)

// Ports are the outside world as the actors see it. Clock, log, randomness and mailboxes are part
// of Env.
type Ports struct {
	Env        *kit.Env
	Files      store.Files
	Processes  jobs.Processes
	Owners     locks.Owners
	Callers    config.Owners
	OnDecision func(took time.Duration) // called with the duration of each decision of the scheduler; nil: not measured
	Events     events.Feed              // nil: no events are published
	Cluster    *Cluster                 // nil: this node is not part of a cluster
	Opcodes    luxi.OpcodeFiles         // nil: opcodes are not reloaded on request
	// Daemons are the node daemons of a Ganeti cluster, which get the configuration. nil: there are none.
	Daemons distributor.Daemons
	// Inquiries asks those node daemons what only they know. nil: there are none.
	Inquiries inquirer.Daemons
	Confd     confd.Server // answers queries about the configuration; nil: nothing does
	// Monitor are the ports of the monitor. nil: there is none.
	Monitor *Monitor
	// Console is true if sessions of the console are kept.
	Console bool
	// WithoutQueue is true in Ganeti mode while no ganeti-luxid runs: the tree has the configuration and the locks only, and
	// reads and writes nothing of the queue.
	WithoutQueue bool
}

// Settings are the operator's choices and the identity of this daemon.
type Settings struct {
	Livelock  string // path of the daemon's own livelock
	BootID    string // identifies the current boot of the machine
	Locks     lock.Settings
	MaxStarts int // bound of start handshakes in progress
	Writers   int // bound of disk operations in progress
	Catalogue *opcode.Catalogue
	// GanetiJobs is true in Ganeti mode: Ganeti's job process runs Ganeti's opcodes.
	GanetiJobs bool
	// Secrets returns the names of the parameters that the present catalogue declares secret, on any goroutine.
	Secrets func() []string
	// Prepared is the state of the configuration that the start has read and checked; nil: none.
	Prepared *configstore.Prepared
	About    luxi.About
	NewUUID  func() string // makes the ids of filter rules
	// Random returns unpredictable octets: MAC addresses and DRBD secrets are made of them.
	Random   func(count int) []byte
	Limits   queue.Limits
	Fence    time.Duration   // of a new master, see jobs.Config and locks.Config
	Patience jobs.RetryLimit // before a job that cannot be started fails
}

// DefaultLimits are limits far above the load of a large site.
func DefaultLimits() queue.Limits {
	return queue.Limits{Unfinished: 1_000_000, Ops: 10_000, JobBytes: 16 << 20}
}

// Names of actors that other actors send to.
const (
	rootName        = "daemon"
	storeName       = rootName + "/core/store"
	schedName       = rootName + "/core/scheduler"
	locksName       = rootName + "/core/locks"
	configName      = rootName + "/core/cluster"
	keeperName      = rootName + "/core/configstore"
	filtersName     = rootName + "/core/filters"
	jobsName        = rootName + "/jobs"
	queueName       = rootName + "/queue"
	luxiName        = rootName + "/luxi"
	wconfdName      = rootName + "/wconf"
	eventsName      = rootName + "/events"
	ssconfName      = rootName + "/ssconf"
	distributorName = rootName + "/distributor"
	inquirerName    = rootName + "/inquirer"
	configcheckName = rootName + "/configcheck"
	confdKeyName    = rootName + "/confdkey"
	sessionsName    = rootName + "/sessions"
)

// group is a supervisor: the policy for its children, and the children in the order of their
// start. They drain in reverse order.
type group struct {
	name     string
	policy   kit.Policy
	children []child
}

// child is an actor or a group. why is the reason of its position in the tree.
type child struct {
	name         string
	why          string
	drains       bool // has work to finish before the daemon may stop
	reportsReady bool // its answer to AnnounceQueue is the answer of the daemon
	props        func(Ports, Settings) *actor.Props
	group        *group
	// enabled reports whether the child exists; nil: always.
	enabled func(Ports) bool
}

// tree is the whole tree. A PID and its mailbox survive restarts of the actor, so that actors
// keep the PIDs of each other.
var tree = group{
	name: rootName,
	policy: kit.Policy{
		Scope: kit.OneForOne, Backoff: 100 * time.Millisecond, BackoffMax: 5 * time.Second,
		Limit: 10, Window: 2 * time.Minute, OnGiveUp: kit.Stop,
	},
	children: []child{
		{name: "core", why: "what decides and what is on the disk must agree: rebuilt together", group: &core},
		{name: "jobs", enabled: hasQueue, why: "before the queue, which asks it for the running jobs at once; its crash ends no job process",
			drains: true, props: jobsProps},
		{name: "queue", enabled: hasQueue, why: "reads the disk again and survives a restart of core", drains: true, reportsReady: true, props: queueProps},
		{name: "luxi", enabled: hasQueue, why: "last to start and first to stop: clients find a daemon that works", drains: true, props: luxiProps},
		{name: "wconf", why: "as luxi", drains: true, props: wconfdProps},
		{name: "ssconf", why: "no actor waits for it; it asks for the configuration; in a cluster it is beside each node's own storage", props: ssconfProps, enabled: writesSsconf},
		{name: "distributor", why: "it survives a restart of core, which tells it the configuration again", props: distributorProps, enabled: hasDaemons},
		{name: "inquirer", why: "it survives a restart of all others; connections ask it, and ask again", props: inquirerProps, enabled: asksDaemons},
		{name: "configcheck", why: "no actor waits for it; it asks for the configuration", props: configcheckProps},
		{name: "confdkey", why: "no actor waits for it but connections, whose clients can repeat their request", props: confdKeyProps, enabled: makesKeys},
		{name: "sessions", why: "no actor waits for it but connections, which ask again", props: sessionsProps, enabled: keepsSessions},
		{name: answersName, why: "the configuration is shown where it is kept", group: &answers, enabled: isStandalone},
		{name: "events", why: "no actor waits for it, and after a restart it asks the senders for their state", props: eventsProps, enabled: hasFeed},
	},
}

const answersName = "answers"

// answers are the actors behind services that only read. They are on every node of a cluster, and on a node without a cluster. Such an
// actor is restarted for as long as it fails, so that its failure has no consequence for others.
var answers = group{
	name: answersName,
	policy: kit.Policy{
		Scope: kit.OneForOne, Backoff: 100 * time.Millisecond, BackoffMax: 30 * time.Second,
		Limit: math.MaxInt32, Window: time.Hour, OnGiveUp: kit.Stop,
	},
	children: []child{
		{name: "confd", why: "no actor waits for it; it asks for the configuration", props: confdProps, enabled: answersQueries},
		{name: "monitor", why: "no actor waits for it; it asks the others for their states", props: monitorProps, enabled: hasMonitor},
	},
}

// answersQueries reports whether queries about the configuration are answered.
func answersQueries(p Ports) bool { return p.Confd != nil }

// ownKeeperOf returns the configstore of this node.
func ownKeeperOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return p.Env.PID(keeperName)
	}
	return p.Env.PID(nodeConfigsName)
}

// keeperSubscribers returns the actors that the configstore of this node sends each configuration to.
func keeperSubscribers(p Ports) []*actor.PID {
	var pids []*actor.PID
	if answersQueries(p) {
		pids = append(pids, p.Env.PID(answersPath(p)+"/confd"))
	}
	if hasMonitor(p) {
		pids = append(pids, monitorOf(p))
	}
	return pids
}

// answersPath is the name of the group answers with the names above it.
func answersPath(p Ports) string {
	if isStandalone(p) {
		return rootName + "/" + answersName
	}
	return nodeRoot + "/" + answersName
}

// makesKeys reports whether the keys of queries are lockstep's own. In a Ganeti cluster they are Ganeti's.
func makesKeys(p Ports) bool { return p.Daemons == nil }

// keyKeeperOf returns the actor that changes the keys; nil: there is none.
func keyKeeperOf(p Ports) *actor.PID {
	if !makesKeys(p) {
		return nil
	}
	return p.Env.PID(confdKeyName)
}

func confdKeyProps(p Ports, s Settings) *actor.Props {
	return confdkey.Props(confdkey.Config{Env: p.Env, Store: storeOf(p), Random: s.Random})
}

// keepsSessions reports whether there are sessions of the console.
func keepsSessions(p Ports) bool { return p.Console && hasQueue(p) }

// sessionsOf returns the actor that keeps the sessions; nil: there is none.
func sessionsOf(p Ports) *actor.PID {
	if !keepsSessions(p) {
		return nil
	}
	return p.Env.PID(sessionsName)
}

func sessionsProps(p Ports, s Settings) *actor.Props {
	return sessions.Props(sessions.Config{Env: p.Env, Store: storeOf(p), Random: s.Random})
}

func confdProps(p Ports, s Settings) *actor.Props {
	return confd.Props(confd.Config{Env: p.Env, Storage: ownKeeperOf(p), Server: p.Confd, Secrets: s.Secrets})
}

var core = group{
	name: "core",
	policy: kit.Policy{
		Scope: kit.AllForOne, Backoff: 50 * time.Millisecond, BackoffMax: 2 * time.Second,
		Limit: 5, Window: time.Minute, OnGiveUp: kit.Escalate,
	},
	children: []child{
		{name: "store", why: "everybody needs the disk; in a cluster the replicator is the store", drains: true, props: storeProps, enabled: isStandalone},
		{name: "configstore", why: "it is the storage of the configuration; in a cluster the replicator is, before each node's own",
			drains: true, props: configstoreProps, enabled: isStandalone},
		{name: "locks", why: "its memory and its journal must agree", drains: true, props: locksProps},
		{name: "cluster", why: "it asks for locks", props: configProps},
		{name: "filters", why: "its rules are the configuration's", props: filtersProps, enabled: hasQueue},
		{name: "scheduler", why: "it rebuilds its state from the queue's", props: schedulerProps, enabled: hasQueue},
	},
}

func storeProps(p Ports, s Settings) *actor.Props {
	return store.Props(store.Config{Env: p.Env, Files: p.Files, Writers: s.Writers, Clients: storeClients(p)})
}

// storeClients are the actors that the store answers.
func storeClients(p Ports) []*actor.PID {
	clients := present(p, locksName, configName, queueName, jobsName, luxiName)
	if isStandalone(p) {
		clients = append(clients, p.Env.PID(keeperName))
	}
	for _, pid := range []*actor.PID{ssconfOf(p), keyKeeperOf(p), sessionsOf(p)} {
		if pid != nil {
			clients = append(clients, pid)
		}
	}
	return clients
}

// hasQueue reports whether the tree has the queue and what serves it.
func hasQueue(p Ports) bool { return !p.WithoutQueue }

// belongsToQueue reports whether only a tree with a queue has the actor.
func belongsToQueue(name string) bool {
	switch name {
	case queueName, jobsName, luxiName, filtersName, schedName:
		return true
	}
	return false
}

// present returns the actors with these names that the tree has.
func present(p Ports, names ...string) []*actor.PID {
	var pids []*actor.PID
	for _, name := range names {
		if hasQueue(p) || !belongsToQueue(name) {
			pids = append(pids, p.Env.PID(name))
		}
	}
	return pids
}

// ifPresent returns the actor with that name; nil if the tree does not have it.
func ifPresent(p Ports, name string) *actor.PID {
	if pids := present(p, name); len(pids) > 0 {
		return pids[0]
	}
	return nil
}

// isStandalone reports whether this node belongs to no cluster.
func isStandalone(p Ports) bool { return p.Cluster == nil }

// storeOf returns the actor that writes the master's files: the store, or the replicator of a
// cluster.
func storeOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return p.Env.PID(storeName)
	}
	return replicatorOf(p)
}

// replicatorOf returns the replicator; nil on a node without a cluster.
func replicatorOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return nil
	}
	return p.Env.PID(replicatorName)
}

// leadershipCheck returns a function that reports whether this node is the master for certain;
// nil: it always is.
func leadershipCheck(p Ports) func() bool {
	if isStandalone(p) {
		return nil
	}
	return p.Cluster.Log.Leads
}

// daemonOwner is the daemon as an owner of locks for a purpose.
func daemonOwner(s Settings, purpose string) lock.Owner {
	return lock.NamedOwner("lockstepd-"+purpose, s.Livelock, s.About.PID)
}

func locksProps(p Ports, s Settings) *actor.Props {
	return locks.Props(locks.Config{Env: p.Env, Store: storeOf(p), Queue: ifPresent(p, queueName),
		Scheduler:   ifPresent(p, schedName),
		Clients:     subscribers(p, configName, wconfdName, luxiName),
		Subscribers: subscribers(p), ClusterConfig: p.Env.PID(configName),
		Owners: p.Owners, Settings: s.Locks, Boot: s.BootID, Self: daemonOwner(s, "destruction"), Fence: s.Fence})
}

func configstoreProps(p Ports, s Settings) *actor.Props {
	return configstore.Props(configstore.Config{Env: p.Env, Store: p.Env.PID(storeName), Clients: []*actor.PID{p.Env.PID(configName)}, Ssconf: ssconfOf(p), Subscribers: keeperSubscribers(p), Secrets: s.Secrets, Prepared: s.Prepared})
}

// keeperOf returns the storage of the configuration: configstore, or the replicator of a cluster.
func keeperOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return p.Env.PID(keeperName)
	}
	return replicatorOf(p)
}

func ssconfProps(p Ports, _ Settings) *actor.Props {
	return ssconf.Props(ssconf.Config{Env: p.Env, Store: p.Env.PID(storeName), Publisher: p.Env.PID(keeperName), Release: coreconfig.SoftwareVersion})
}

func distributorProps(p Ports, _ Settings) *actor.Props {
	return distributor.Props(distributor.Config{Env: p.Env, Daemons: p.Daemons, Clients: []*actor.PID{p.Env.PID(configName)}, Software: coreconfig.SoftwareVersion})
}

func configcheckProps(p Ports, _ Settings) *actor.Props {
	return configcheck.Props(configcheck.Config{Env: p.Env, ClusterConfig: p.Env.PID(configName)})
}

// hasDaemons reports whether node daemons get the configuration.
func hasDaemons(p Ports) bool { return p.Daemons != nil }

// asksDaemons reports whether queries ask node daemons.
func asksDaemons(p Ports) bool { return p.Inquiries != nil && hasQueue(p) }

// inquirerOf returns the actor that asks node daemons, if there is one.
func inquirerOf(p Ports) *actor.PID {
	if asksDaemons(p) {
		return p.Env.PID(inquirerName)
	}
	return nil
}

func inquirerProps(p Ports, _ Settings) *actor.Props {
	return inquirer.Props(inquirer.Config{Env: p.Env, Daemons: p.Inquiries, Places: noded.ParallelMax, Clients: []*actor.PID{p.Env.PID(luxiName)}})
}

// distributorOf returns the distributor, if there is one.
func distributorOf(p Ports) *actor.PID {
	if hasDaemons(p) {
		return p.Env.PID(distributorName)
	}
	return nil
}

// writesSsconf reports whether this tree has the writer of the ssconf files: on a single node, if no node daemon writes them.
func writesSsconf(p Ports) bool { return isStandalone(p) && !hasDaemons(p) }

// ssconfOf returns the actor that writes the ssconf files, if there is one.
func ssconfOf(p Ports) *actor.PID {
	if writesSsconf(p) {
		return p.Env.PID(ssconfName)
	}
	return nil
}

func configProps(p Ports, s Settings) *actor.Props {
	return config.Props(config.Config{Env: p.Env, Store: storeOf(p), Storage: keeperOf(p), Distributor: distributorOf(p), Locks: p.Env.PID(locksName),
		Subscribers: withEvents(p, filtersName, schedName, queueName, configcheckName),
		Owners:      p.Callers, Random: s.Random, Destruction: daemonOwner(s, "destruction")})
}

func filtersProps(p Ports, _ Settings) *actor.Props {
	return filters.Props(filters.Config{Env: p.Env, Queue: p.Env.PID(queueName), ClusterConfig: p.Env.PID(configName)})
}

func wconfdProps(p Ports, _ Settings) *actor.Props {
	return wconfd.Props(wconfd.Config{Env: p.Env, Locks: p.Env.PID(locksName), ClusterConfig: p.Env.PID(configName), Leads: leadershipCheck(p)})
}

func schedulerProps(p Ports, s Settings) *actor.Props {
	return scheduler.Props(scheduler.Config{Env: p.Env, Queue: p.Env.PID(queueName), Locks: p.Env.PID(locksName),
		ClusterConfig: p.Env.PID(configName), Catalogue: s.Catalogue, GanetiJobs: s.GanetiJobs, Decided: p.OnDecision})
}

func jobsProps(p Ports, s Settings) *actor.Props {
	return jobs.Props(jobs.Config{Env: p.Env, Store: storeOf(p), Queue: p.Env.PID(queueName),
		Scheduler: p.Env.PID(schedName), Processes: p.Processes, MaxStarts: s.MaxStarts, RetryLimit: s.Patience,
		Leads: leadershipCheck(p), Replicator: replicatorOf(p), Fence: s.Fence})
}

func queueProps(p Ports, s Settings) *actor.Props {
	return queue.Props(queue.Config{Env: p.Env, Store: storeOf(p), Scheduler: p.Env.PID(schedName),
		Jobs: p.Env.PID(jobsName), Locks: p.Env.PID(locksName), ClusterConfig: p.Env.PID(configName), Filters: p.Env.PID(filtersName), Catalogue: s.Catalogue, Gateways: subscribers(p, luxiName), Livelock: s.Livelock, Limits: s.Limits, ArchiveAfter: s.About.ArchiveAfter, Shared: !isStandalone(p), GanetiJobs: s.GanetiJobs})
}

func luxiProps(p Ports, s Settings) *actor.Props {
	return luxi.Props(luxi.Config{Env: p.Env, Queue: p.Env.PID(queueName), Jobs: p.Env.PID(jobsName),
		Store: storeOf(p), Locks: p.Env.PID(locksName), Events: eventsOf(p), Scheduler: p.Env.PID(schedName), Filters: p.Env.PID(filtersName),
		ClusterConfig: p.Env.PID(configName), Catalogue: s.Catalogue, NewUUID: s.NewUUID, About: s.About, OpcodeFiles: p.Opcodes, Leads: leadershipCheck(p), Nodes: replicatorOf(p), Distributor: distributorOf(p), Inquirer: inquirerOf(p), ConfdKeys: keyKeeperOf(p), Sessions: sessionsOf(p)})
}

// hasFeed reports whether events are published.
func hasFeed(p Ports) bool { return p.Events != nil && hasQueue(p) }

// eventsOf returns the actor that publishes events; nil: none does.
func eventsOf(p Ports) *actor.PID {
	if !hasFeed(p) {
		return nil
	}
	return p.Env.PID(eventsName)
}

// subscribers returns the actors with these names, and the events actor and the monitor if there are any.
func subscribers(p Ports, names ...string) []*actor.PID {
	pids := withEvents(p, names...)
	if hasMonitor(p) {
		pids = append(pids, monitorOf(p))
	}
	return pids
}

// withEvents returns the actors with these names, and the events actor if there is one.
func withEvents(p Ports, names ...string) []*actor.PID {
	if hasFeed(p) {
		names = append(names, eventsName)
	}
	return present(p, names...)
}

func eventsProps(p Ports, _ Settings) *actor.Props {
	return events.Props(events.Config{Env: p.Env, Queue: p.Env.PID(queueName), ClusterConfig: p.Env.PID(configName), Feed: p.Events})
}

// Locks returns the PID of the lock manager, for the port that reports dead owners
// (messages.OwnerDied).
func Locks(env *kit.Env) *actor.PID { return env.PID(locksName) }

// ClusterConfig returns the PID of the configuration's actor, for the port that reports dead owners of reservations
// (config.CallerDied).
func ClusterConfig(env *kit.Env) *actor.PID { return env.PID(configName) }

// SetOpcodes tells everybody concerned what operators have declared, see
// opcodes.Changed.
func SetOpcodes(env *kit.Env, catalogue *opcode.Catalogue) {
	for _, name := range []string{queueName, schedName, luxiName} {
		env.System().Root.Send(env.PID(name), &opcodes.Changed{Catalogue: catalogue})
	}
}

// Running is a started tree.
type Running struct {
	// Root answers AnnounceQueue, if there is a queue, when the queue accepts requests, and Drain with DrainResult when
	// everything accepted is on the disk and no start is in progress. Root may be stopped then.
	// Job processes continue.
	Root *actor.PID
	// Luxi and Wconfd accept connections, as conn.Opened. A tree without a queue has no Luxi.
	Luxi, Wconfd *actor.PID
	// Done is closed when the tree has stopped: Root was stopped, or a part of the tree has
	// failed too often.
	Done <-chan struct{}
}

// Tree starts the actors of one daemon.
func Tree(p Ports, s Settings) (*Running, error) {
	pid, done, err := p.Env.SpawnRoot(tree.props(p, s), rootName)
	if err != nil {
		return nil, fmt.Errorf("start the actors: %w", err)
	}
	return &Running{Root: pid, Luxi: ifPresent(p, luxiName), Wconfd: p.Env.PID(wconfdName), Done: done}, nil
}
