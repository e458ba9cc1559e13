// Package supervisor is the actor tree as data: who is whose child, what
// happens to whom when one fails, in which order they stop. Tree is the only
// wiring there is; the daemon and the simulator differ in the ports they pass.
package supervisor

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/act"
	"lockstep/actors/core/opcode"
	"lockstep/actors/jobs"
	"lockstep/actors/luxi"
	"lockstep/actors/queue"
	"lockstep/actors/scheduler"
	"lockstep/actors/store"
)

// Ports are the outside world, as the actors see it. Clock, log, randomness and
// mailboxes come with Env.
type Ports struct {
	Env       *act.Env
	Files     store.Files
	Processes jobs.Processes
}

// Settings are what an operator can choose.
type Settings struct {
	Livelock   string // path of the daemon's own
	MaxRunning int    // run slots (max_running_jobs)
	MaxStarts  int    // start handshakes in flight
	Writers    int    // disk operations in flight
	Catalogue  *opcode.Catalogue
	About      luxi.About
	Limits     queue.Limits
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
	jobsName  = root + "/jobs"
	queueName = root + "/queue"
	luxiName  = root + "/luxi"
)

// group is a supervisor: its policy for its children, and these in the order in
// which they start. They are told to drain in reverse.
type group struct {
	name     string
	policy   act.Policy
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
}

// tree is the whole of it. A PID survives its actor's restart, and so does the
// mailbox behind it: actors know each other by name, once and for all.
var tree = group{
	name: root,
	policy: act.Policy{
		Scope: act.OneForOne, Backoff: 100 * time.Millisecond, BackoffMax: 5 * time.Second,
		Limit: 10, Window: 2 * time.Minute, OnGiveUp: act.Stop,
	},
	children: []child{
		{name: "core", why: "what decides and what is on the disk must agree: rebuilt together", group: &core},
		{name: "jobs", why: "before the queue, which asks at once what is in hand; its crash touches no process",
			drain: true, props: jobsProps},
		{name: "queue", why: "reads the disk again and survives a restart of core", drain: true, ready: true, props: queueProps},
		{name: "luxi", why: "last to start and first to stop: clients find a daemon that works", drain: true, props: luxiProps},
	},
}

var core = group{
	name: "core",
	policy: act.Policy{
		Scope: act.AllForOne, Backoff: 50 * time.Millisecond, BackoffMax: 2 * time.Second,
		Limit: 5, Window: time.Minute, OnGiveUp: act.Escalate,
	},
	children: []child{
		{name: "store", why: "everybody needs the disk", drain: true, props: storeProps},
		{name: "scheduler", why: "its state is made anew from the queue's", props: schedulerProps},
	},
}

func storeProps(p Ports, s Settings) *actor.Props {
	return store.Props(store.Config{Env: p.Env, Files: p.Files, Writers: s.Writers,
		Clients: []*actor.PID{p.Env.PID(queueName), p.Env.PID(jobsName), p.Env.PID(luxiName)}})
}

func schedulerProps(p Ports, s Settings) *actor.Props {
	return scheduler.Props(scheduler.Config{Env: p.Env, Queue: p.Env.PID(queueName), MaxRunning: s.MaxRunning})
}

func jobsProps(p Ports, s Settings) *actor.Props {
	return jobs.Props(jobs.Config{Env: p.Env, Store: p.Env.PID(storeName), Queue: p.Env.PID(queueName),
		Processes: p.Processes, MaxStarts: s.MaxStarts})
}

func queueProps(p Ports, s Settings) *actor.Props {
	return queue.Props(queue.Config{Env: p.Env, Store: p.Env.PID(storeName), Scheduler: p.Env.PID(schedName),
		Jobs: p.Env.PID(jobsName), Gateways: []*actor.PID{p.Env.PID(luxiName)}, Livelock: s.Livelock, Limits: s.Limits})
}

func luxiProps(p Ports, s Settings) *actor.Props {
	return luxi.Props(luxi.Config{Env: p.Env, Queue: p.Env.PID(queueName), Jobs: p.Env.PID(jobsName),
		Store: p.Env.PID(storeName), Catalogue: s.Catalogue, About: s.About})
}

// Running is a started tree.
type Running struct {
	// Root answers AskReady when the queue takes requests: only then are there
	// actors to take a connection. It answers Drain with Drained when everything
	// accepted is on the disk and no start is in flight; it may be stopped then.
	// Job processes go on.
	Root *actor.PID
	// Luxi takes connections, as socket.Opened.
	Luxi *actor.PID
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
	return &Running{Root: pid, Luxi: p.Env.PID(luxiName), Done: done}, nil
}
