package call

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/limits"
	"lockstep/core/opcode"
	"lockstep/core/usage"
)

// Config has the actors that the calls of LUXI ask, and the limits and settings of the gateway.
type Config struct {
	Env           *kit.Env
	Queue         *actor.PID
	Jobs          *actor.PID
	Store         *actor.PID
	Locks         *actor.PID
	Events        *actor.PID // of locks and filter rules; nil: there are none
	Scheduler     *actor.PID
	Filters       *actor.PID
	ClusterConfig *actor.PID
	Catalogue     *opcode.Catalogue // until opcodes.Changed brings another one
	NewUUID       func() string     // for filter rules
	Policy        access.Policy     // who may do what, until grants.Changed brings other grants
	About         About

	OpcodeFiles OpcodeFiles // nil: opcodes cannot be reloaded
	UsedFiles   UsedFiles   // nil: what jobs have used cannot be read

	Leads      func() bool // see conn.Leased
	Replicator *actor.PID  // the replicator; nil: the daemon belongs to no cluster of several nodes
	// Distributor sends the configuration to the nodes of a Ganeti cluster; nil: there are none.
	Distributor *actor.PID
	// Inquirer asks node daemons what only they know; nil: there are none.
	Inquirer *actor.PID
	// Copier sends the queue to the master candidates of a Ganeti cluster; nil: there are none.
	QueueCopy *actor.PID
	// AwaitCopies: an answer waits until candidates have the copies of what it reports, see queuecopy.Await.
	AwaitCopies bool
	// SliceWork is the work of a connection's actor between two messages, in steps of about 20 ns; 0: 250,000.
	SliceWork int
	// ConfdKeys is the actor of package confdkey; nil in a Ganeti cluster.
	ConfdKey *actor.PID
	// Audit writes the audit log; nil: there is none.
	Audit *actor.PID
	// Sessions is the actor of package sessions; nil: there is no console.
	Sessions *actor.PID
	// Grants is the actor of package grants; nil in a Ganeti cluster.
	Grants *actor.PID
	// GrantsUnknown is true until the first grants.Changed, if there is an actor that sends it. What the Policy refuses waits for it.
	GrantsUnknown bool
	// Calendar keeps the schedules; nil: there are none.
	Calendar *actor.PID
	// Features is the actor of package features; nil: the daemon belongs to no cluster of several nodes.
	Features *actor.PID
}

// About is what a client can learn of the daemon itself.
type About struct {
	Version string
	DataDir string
	PID     int
	Started time.Time
	// MembersAreRoot: root's daemon runs the commands of all users as root.
	MembersAreRoot bool
	// Limits is what this node can limit of a command now. It may be called on any goroutine, and reads a file of the kernel, which waits
	// for no disk. nil: nothing can be limited.
	Limits func() limits.Node
	// Console returns the address of this node's console, as "http://127.0.0.1:5080/ui/"; "" while there is none. It may be
	// called on any goroutine. nil: there is none.
	Console func() string
	// Guarded reports whether a guard runs on this node. It may be called on any goroutine, and does not wait. nil: none does.
	Guarded func() bool
	// ZoneData says in words which data this daemon uses for a time zone. It may be called on any goroutine, and reads files. nil: "".
	ZoneData func(zone string) string
	// Monitor is the same for the address of this node's MonD, as "http://127.0.0.1:1815".
	Monitor func() string
	// ArchiveAfter is what the daemon's options say of ended jobs; the setting overrides it. 0: they stay in the queue.
	ArchiveAfter time.Duration
	// RemoveArchivedAfter is what the daemon's options say of archived jobs; the setting overrides it. 0: they stay.
	RemoveArchivedAfter time.Duration
}

// ConsoleAddress is the address of this node's console; empty: there is none.
func (a About) ConsoleAddress() string {
	if a.Console == nil {
		return ""
	}
	return a.Console()
}

// LimitsNow is what this node can limit of a command now.
func (a About) LimitsNow() limits.Node {
	if a.Limits == nil {
		return limits.Node{}
	}
	return a.Limits()
}

// MonitorAddress is the address of this node's MonD; empty: there is none.
func (a About) MonitorAddress() string {
	if a.Monitor == nil {
		return ""
	}
	return a.Monitor()
}

// OpcodeFiles is the port to the files in which operators declare opcodes.
type OpcodeFiles interface {
	// Reload reads the files again and puts the catalogue in force, in a cluster on all nodes. It does not block; done is
	// called once, on any goroutine. After an error the former catalogue stays in force.
	Reload(done func(answer.OpcodesReloaded, error))
}

// UsedFiles is the port to the files of jobs, of the queue and of the archive, for what the jobs have used.
type UsedFiles interface {
	// Page makes one page, a usage.Page as JSON. It does not block; done is called once, on any goroutine.
	Page(q usage.Query, done func(page []byte, err error))
}
