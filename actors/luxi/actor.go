// Package luxi is the gateway for Ganeti's clients, for lockstep's own client and for job processes: the LUXI protocol
// (queue.md 1), with lockstep's own methods beside Ganeti's.
//
// The luxi actor accepts connections. Each connection has an actor, which reads requests and dispatches them by method.
// Package call has the state of one request, from its arrival to its answer; packages jobs and objects serve the
// methods. A connection's actor asks the queue, the scheduler, the locks, the filters, the configuration, the jobs, the
// nodes, the inquirer and the store, and tells only its client.
//
// Nothing survives a crash of a connection's actor: its connection is closed. After a restart of an actor that was
// asked, the open question is sent again. A submission is not: the client gets an error that says that its outcome is
// unknown.
package luxi

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/audit"
	"lockstep/actors/conn"
	"lockstep/actors/grants"
	"lockstep/actors/inquirer"
	"lockstep/actors/kit"
	"lockstep/actors/luxi/call"
	"lockstep/actors/opcodes"
	"lockstep/actors/queuecopy"
	"lockstep/messages"
)

// Idle is how long a connection may carry nothing (queue.md 1.1).
const Idle = 180 * time.Second

// Config has the neighbours and settings of the gateway for LUXI, the protocol of Ganeti's job queue: what the calls of its clients need.
type Config = call.Config

// Props describes the gateway for LUXI, the actor that accepts its connections and has a child for each. The catalogue of opcodes
// and the grants survive a restart.
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
	case *messages.QueueStarted, *messages.StoreStarted, *messages.LocksStarted, *inquirer.Started, *queuecopy.Started,
		*audit.Started:
		g.Broadcast(ctx, m)
	case *opcodes.Changed:
		g.config.Catalogue = m.Catalogue
		g.Broadcast(ctx, m)
	case *grants.Changed:
		g.config.Policy.Grants, g.config.GrantsUnknown = m.Grants, false
		g.Broadcast(ctx, m)
		if ctx.Sender() != nil {
			ctx.Respond(&grants.Taken{Number: m.Number})
		}
	case *messages.Drain:
		g.Drain(ctx, m)
	default:
		kit.Unexpected(ctx)
	}
}
