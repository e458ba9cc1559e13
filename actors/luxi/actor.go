// Package luxi is the gateway for Ganeti's clients and for job processes: the
// LUXI protocol (queue.md 1), plus two calls for job processes.
//
// The luxi actor owns the connections; each has an actor of its own, which owns
// the request being served and its answer. They ask the queue, the jobs actor and the
// store, and tell only their client. Nothing survives the crash of a connection
// actor: its connection is closed. A restart of the queue is survived by asking
// again; a submission in hand is answered with an error that says what is not
// known.
package luxi

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/opcodes"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// What the listener of this gateway is given.
const (
	// Idle is how long a client may say nothing (queue.md 1.1).
	Idle = 180 * time.Second
	// SocketMode lets the daemon's group in.
	SocketMode = 0o660
)

// Config is what the gateway needs.
type Config struct {
	Env           *kit.Env
	Queue         *actor.PID
	Jobs          *actor.PID
	Store         *actor.PID
	Locks         *actor.PID
	Scheduler     *actor.PID
	Filters       *actor.PID
	ClusterConfig *actor.PID
	Catalogue     *opcode.Catalogue
	NewUUID       func() string // names filter rules
	About         About

	Leads func() bool // see conn.Leased
	Nodes *actor.PID  // who knows the nodes of the cluster; nil: there is none
}

// About is what a client can learn of the daemon itself.
type About struct {
	Version string
	PID     int
	Started time.Time
}

// Props makes the luxi actor. A connection whose actor crashes is closed; it
// has no state worth a restart.
func Props(c Config) *actor.Props {
	incarnation, catalogue := uint64(0), c.Catalogue
	return c.Env.Props("luxi", func() actor.Actor {
		incarnation++
		c.Catalogue = catalogue
		return &gateway{config: c, incarnation: incarnation, catalogue: &catalogue}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Stop})))
}

type gateway struct {
	config      Config
	incarnation uint64
	catalogue   **opcode.Catalogue // for the next incarnation
	counter     uint32
	draining    bool
}

func (g *gateway) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *conn.Opened:
		g.opened(ctx, m.Conn)
	case *messages.QueueStarted, *messages.StoreStarted, *messages.LocksStarted:
		g.broadcast(ctx, m)
	case *opcodes.Changed:
		g.opcodesChanged(ctx, m)
	case *messages.Drain:
		g.draining = true
		g.broadcast(ctx, m)
		ctx.Request(ctx.Sender(), &messages.DrainResult{})
	default:
		kit.Unexpected(ctx)
	}
}

func (g *gateway) opened(ctx actor.Context, c conn.Conn) {
	if g.draining {
		c.Close()
		return
	}
	g.counter++
	config, number := g.config, g.counter
	c = conn.Leased(c, config.Leads)
	conn.Spawn(ctx, config.Env, c, fmt.Sprintf("conn-%d.%d", number, g.incarnation),
		func() actor.Actor { return newConnection(config, c, number) })
}

// opcodesChanged takes what operators have declared, for all connections.
func (g *gateway) opcodesChanged(ctx actor.Context, m *opcodes.Changed) {
	g.config.Catalogue, *g.catalogue = m.Catalogue, m.Catalogue
	g.broadcast(ctx, m)
}

func (g *gateway) broadcast(ctx actor.Context, m any) {
	for _, pid := range ctx.Children() {
		ctx.Send(pid, m)
	}
}
