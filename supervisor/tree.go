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

	"lockstep/actors/calendar"
	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/confd"
	"lockstep/actors/config/configstore"
	"lockstep/actors/config/distributor"
	"lockstep/actors/events"
	"lockstep/actors/inquirer"
	"lockstep/actors/jobs"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/luxi/call"
	"lockstep/actors/opcodes"
	"lockstep/actors/queue"
	"lockstep/actors/queuecopy"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	corecopy "lockstep/core/queuecopy"
	"lockstep/core/runas"
)

// Ports are what the actors reach the outside world by: the disk, job processes, connections, other nodes. Clock, log, randomness and
// mailboxes are part of Env.
type Ports struct {
	Env        *kit.Env
	Files      store.Files
	Processes  jobs.Processes
	Accounts   Accounts
	Owners     locks.Owners
	Callers    clusterconfig.Owners
	OnUnlocked func(clusterconfig.Unlocked) // called for each call of WConfD that changes an object without its lock; nil: not reported
	OnDecision func(took time.Duration)     // called with the duration of each decision of the scheduler; nil: not measured
	Events     events.Feed                  // nil: no events are published
	Cluster    *Cluster                     // nil: this node is not part of a cluster
	Opcodes    call.OpcodeFiles             // nil: opcodes are not reloaded on request
	Used       call.UsedFiles               // nil: what jobs have used cannot be asked for
	// Daemons are the node daemons of a Ganeti cluster, which get the configuration. nil: there are none.
	Daemons distributor.Daemons
	// Inquiries asks those node daemons what only they know. nil: there are none.
	Inquiries inquirer.Daemons
	Confd     confd.Server // answers queries about the configuration; nil: nothing does
	// Copies are the same node daemons, those of master candidates get the queue. nil: there are none.
	Copies queuecopy.Daemons
	// Monitor are the ports of the monitor. nil: there is none.
	Monitor *Monitor
	// Console is true if sessions of the console are kept.
	Console bool
	// WithoutQueue is true in Ganeti mode while no ganeti-luxid runs: the tree has the configuration and the locks only, and
	// reads and writes nothing of the queue.
	WithoutQueue bool
}

// Accounts is the port to the accounts of users of this node, for their jobs and their schedules.
type Accounts interface {
	jobs.Accounts
	calendar.Accounts
}

// Settings are the operator's choices and the identity of this daemon.
type Settings struct {
	Livelock  string           // path of the daemon's own livelock
	Daemon    access.Submitter // the user of the daemon, to whom jobs without a submitter belong
	Access    access.Policy    // who may do what, before the first grants are known
	BootID    string           // identifies the current boot of the machine
	Locks     lock.Settings
	MaxStarts int // bound of start handshakes in progress
	Writers   int // bound of disk operations in progress
	Catalogue *opcode.Catalogue
	// GanetiJobs is true in Ganeti mode: Ganeti's job process runs Ganeti's opcodes.
	GanetiJobs bool
	// RunAs says as whom the commands of jobs run.
	RunAs runas.Policy
	// Secrets returns the names of the parameters that the present catalogue declares secret, on any goroutine.
	Secrets func() []string
	// Prepared is the state of the configuration that the start has read and checked; nil: none.
	Prepared *configstore.Prepared
	About    call.About
	NewUUID  func() string // makes the ids of filter rules
	// Random returns unpredictable octets: MAC addresses and DRBD secrets are made of them.
	Random func(count int) []byte
	Limits queue.Limits
	// Node is the name of this node in Ganeti's configuration. Others are sent configuration and queue only while it is the
	// master's. "": this node is the master.
	Node string
	// Acknowledge says which master candidates of Ganeti mode have what a client has changed when it gets its answer.
	Acknowledge corecopy.Acknowledge
	Fence       time.Duration   // of a new master, see jobs.Config and locks.Config
	Patience    jobs.RetryLimit // before a job that cannot be started fails
	// StartUnblocked: no job is started before its locks are free, see sched.Settings.
	StartUnblocked bool
}

// DefaultLimits are limits far above the load of a large site.
func DefaultLimits() queue.Limits {
	return queue.Limits{Unfinished: 1_000_000, Ops: 10_000, JobBytes: 16 << 20}
}

// Names of actors that other actors send to.
const (
	rootName          = "daemon"
	storeName         = rootName + "/core/store"
	schedulerName     = rootName + "/core/scheduler"
	locksName         = rootName + "/core/locks"
	clusterconfigName = rootName + "/core/clusterconfig"
	configstoreName   = rootName + "/core/configstore"
	filtersName       = rootName + "/core/filters"
	jobsName          = rootName + "/jobs"
	queueName         = rootName + "/queue"
	luxiName          = rootName + "/luxi"
	wconfdName        = rootName + "/wconfd"
	eventsName        = rootName + "/events"
	ssconfName        = rootName + "/ssconf"
	distributorName   = rootName + "/distributor"
	inquirerName      = rootName + "/inquirer"
	queuecopyName     = rootName + "/queuecopy"
	configcheckName   = rootName + "/configcheck"
	confdkeyName      = rootName + "/confdkey"
	sessionsName      = rootName + "/sessions"
	grantsName        = rootName + "/grants"
	featuresName      = rootName + "/features"
	auditName         = rootName + "/audit"
	calendarName      = rootName + "/calendar"
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
		{name: "queuecopy", why: "before those whose changes it sends, so that it drains last; " +
			"it survives a restart of core, and after its own it compares the queue with all candidates",
			drains: true, props: queuecopyProps, enabled: hasCopies},
		{name: "jobs", enabled: hasQueue, why: "before the queue, which asks it for the running jobs at once; its crash ends no job process",
			drains: true, props: jobsProps},
		{name: "queue", enabled: hasQueue, why: "reads the disk again and survives a restart of core",
			drains: true, reportsReady: true, props: queueProps},
		{name: "luxi", enabled: hasQueue, why: "last to start and first to stop: clients find a daemon that works",
			drains: true, props: luxiProps},
		{name: "wconfd", why: "as luxi", drains: true, props: wconfdProps},
		{name: "ssconf", why: "no actor waits for it; it asks for the configuration; in a cluster it is beside each node's own storage",
			props: ssconfProps, enabled: writesSsconf},
		{name: "distributor", why: "it survives a restart of core, which tells it the configuration again",
			props: distributorProps, enabled: hasDaemons},
		{name: "inquirer", why: "it survives a restart of all others; connections ask it, and ask again",
			props: inquirerProps, enabled: asksDaemons},
		{name: "configcheck", why: "no actor waits for it; it asks for the configuration", props: configcheckProps},
		{name: "confdkey", why: "no actor waits for it but connections, whose clients can repeat their request",
			props: confdkeyProps, enabled: makesKeys},
		{name: "sessions", why: "no actor waits for it but connections, which ask again", props: sessionsProps, enabled: keepsSessions},
		{name: "grants", why: "after the gateway, which it tells the grants; connections ask again", props: grantsProps, enabled: keepsGrants},
		{name: "features", why: "no actor waits for it but connections, which ask again", props: featuresProps, enabled: notesFeatures},
		{name: "audit", why: "no actor waits for it but connections, which ask again", props: auditProps, enabled: hasQueue},
		{name: "calendar", why: "after the queue, which has restored the files of what was not recorded when the calendar reads them",
			props: calendarProps, enabled: hasQueue},
		{name: answersName, why: "the configuration is shown where it is kept", group: &answers, enabled: isStandalone},
		{name: "events", why: "no actor waits for it, and after a restart it asks the senders for their state",
			props: eventsProps, enabled: hasFeed},
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

// monitorAlone is the tree of a program that has nothing but the monitor.
var monitorAlone = group{
	name: rootName, policy: answers.policy,
	children: []child{{name: "monitor", why: "it is alone", props: loneMonitorProps}},
}

var core = group{
	name: "core",
	policy: kit.Policy{
		Scope: kit.AllForOne, Backoff: 50 * time.Millisecond, BackoffMax: 2 * time.Second,
		Limit: 5, Window: time.Minute, OnGiveUp: kit.Escalate,
	},
	children: []child{
		{name: "store", why: "everybody needs the disk; in a cluster the replicator is the store",
			drains: true, props: storeProps, enabled: isStandalone},
		{name: "configstore", why: "it is the storage of the configuration; in a cluster the replicator is, before each node's own",
			drains: true, props: configstoreProps, enabled: isStandalone},
		{name: "locks", why: "its memory and its journal must agree", drains: true, props: locksProps},
		{name: "clusterconfig", why: "it asks for locks", props: clusterconfigProps},
		{name: "filters", why: "its rules are the configuration's", props: filtersProps, enabled: hasQueue},
		{name: "scheduler", why: "it rebuilds its state from the queue's", props: schedulerProps, enabled: hasQueue},
	},
}

// Locks returns the PID of the lock manager, for the port that reports dead owners
// (messages.OwnerDied).
func Locks(env *kit.Env) *actor.PID { return env.PID(locksName) }

// ClusterConfig returns the PID of the configuration's actor, for the port that reports dead owners of reservations
// (clusterconfig.CallerDied).
func ClusterConfig(env *kit.Env) *actor.PID { return env.PID(clusterconfigName) }

// SetOpcodes tells the queue, the filter engine, the scheduler and the LUXI gateway which opcodes operators have declared
// (opcodes.Changed).
func SetOpcodes(env *kit.Env, catalogue *opcode.Catalogue) {
	for _, name := range []string{queueName, filtersName, schedulerName, luxiName, calendarName} {
		env.System().Root.Send(env.PID(name), &opcodes.Changed{Catalogue: catalogue})
	}
}

// Running is a started tree of actors: those that the program talks to, and the sign that all have stopped.
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

// Tree starts the actors of one daemon. Done of the result is closed when they have ended.
func Tree(p Ports, s Settings) (*Running, error) {
	pid, done, err := p.Env.SpawnRoot(tree.props(p, s), rootName)
	if err != nil {
		return nil, fmt.Errorf("start the actors: %w", err)
	}
	return &Running{Root: pid, Luxi: ifPresent(p, luxiName), Wconfd: p.Env.PID(wconfdName), Done: done}, nil
}
