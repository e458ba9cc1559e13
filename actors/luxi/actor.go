// Package luxi is the gateway for Ganeti's clients, for lockstep's own client and for job processes: the LUXI protocol
// (queue.md 1), with lockstep's own methods beside Ganeti's.
//
// The luxi actor accepts connections. Each connection has an actor, which reads requests, dispatches them by method and
// sends the answers; a call owns the state of one request. A connection's actor asks the queue, the scheduler, the
// locks, the filters, the configuration, the jobs, the nodes, the inquirer and the store, and tells only its client.
//
// Nothing survives a crash of a connection's actor: its connection is closed. After a restart of an actor that was
// asked, the open question is sent again. A submission is not: the client gets an error that says that its outcome is
// unknown.
package luxi

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/inquirer"
	"lockstep/actors/kit"
	"lockstep/actors/opcodes"
	"lockstep/actors/queuecopy"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// Idle is how long a connection may carry nothing (queue.md 1.1).
const Idle = 180 * time.Second

// Config is what the gateway needs.
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
	About         About

	OpcodeFiles OpcodeFiles // nil: opcodes cannot be reloaded

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
	// Sessions is the actor of package sessions; nil: there is no console.
	Sessions *actor.PID
}

// About is what a client can learn of the daemon itself.
type About struct {
	Version string
	DataDir string
	PID     int
	Started time.Time
	// Console returns the address of this node's console, as "http://127.0.0.1:5080/ui/"; "" while there is none. It may be
	// called on any goroutine. nil: there is none.
	Console func() string
	// Monitor is the same for the address of this node's MonD, as "http://127.0.0.1:1815".
	Monitor func() string
	// ArchiveAfter is what the daemon's options say of ended jobs; the setting overrides it. 0: they stay in the queue.
	ArchiveAfter time.Duration
	// RemoveArchivedAfter is what the daemon's options say of archived jobs; the setting overrides it. 0: they stay.
	RemoveArchivedAfter time.Duration
}

// Props makes the luxi actor. Its incarnations share the catalogue.
func Props(c Config) *actor.Props {
	return conn.Props(c.Env, "luxi", c.Leads, func(g *conn.Gateway) actor.Actor { return &luxi{g, &c} })
}

// luxi is the actor.
type luxi struct {
	*conn.Gateway
	config *Config // of all incarnations
}

func (g *luxi) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *conn.Opened:
		g.Accept(ctx, m, func(c conn.Conn, number uint32) actor.Actor { return newConnection(*g.config, c, number) })
	case *messages.QueueStarted, *messages.StoreStarted, *messages.LocksStarted, *inquirer.Started, *queuecopy.Started:
		g.Broadcast(ctx, m)
	case *opcodes.Changed:
		g.config.Catalogue = m.Catalogue
		g.Broadcast(ctx, m)
	case *messages.Drain:
		g.Drain(ctx, m)
	default:
		kit.Unexpected(ctx)
	}
}
