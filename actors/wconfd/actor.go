// Package wconfd is the gateway of Ganeti's WConfD protocol: locks and the whole
// configuration (locks.md 2).
//
// The wconf actor owns the connections; each has an actor of its own, which owns
// the call at hand. They ask the lock manager and the actor of the configuration,
// and tell only their client. Nothing survives the crash of a connection's actor:
// its connection is closed, and the client sends its call again, as the protocol
// wants it to.
package wconfd

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/messages"
)

// What the listener of this gateway is given.
const (
	// Idle is how long a client may say nothing (locks.md 2.1).
	Idle = 60 * time.Second
	// SocketMode: who may change the configuration may do everything.
	SocketMode = 0o600
)

// Config is what the gateway needs.
type Config struct {
	Env           *kit.Env
	Locks         *actor.PID
	ClusterConfig *actor.PID
	Leads         func() bool // see conn.Leased
}

// Props makes the wconf actor. A connection whose actor crashes is closed.
func Props(c Config) *actor.Props {
	incarnation := uint64(0)
	return c.Env.Props("wconf", func() actor.Actor {
		incarnation++
		return &gateway{config: c, incarnation: incarnation}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Stop})))
}

type gateway struct {
	config      Config
	incarnation uint64
	counter     uint32
	draining    bool
}

func (g *gateway) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *conn.Opened:
		g.opened(ctx, m.Conn)
	case *messages.LocksStarted:
		g.broadcast(ctx, m)
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
	config := g.config
	c = conn.Leased(c, config.Leads)
	conn.Spawn(ctx, config.Env, c, fmt.Sprintf("conn-%d.%d", g.counter, g.incarnation),
		func() actor.Actor { return &connection{config: config, conn: c} })
}

func (g *gateway) broadcast(ctx actor.Context, m any) {
	for _, pid := range ctx.Children() {
		ctx.Send(pid, m)
	}
}
