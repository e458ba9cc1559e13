// Package wconfd is the gateway of Ganeti's WConfD protocol: locks, the configuration and the reservations (locks.md 2, config.md 4).
//
// The wconfd actor accepts connections. Each connection has an actor, which owns the call that it is serving. That actor
// asks the lock manager and the configuration's actor, and tells only its client. Nothing survives its crash: the
// connection is closed, and the client sends its call on a new connection, as the protocol demands. After a restart of
// the lock manager or the configuration's actor the open question is sent again, because each call may come twice
// (locks.md 2.1).
package wconfd

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/core/access"
	"lockstep/messages"
)

// Options of the listener of this gateway.
const (
	// Idle is how long a connection may carry nothing (locks.md 2.1).
	Idle = 60 * time.Second
	// SocketMode admits the daemon's user alone: a client that may change the configuration may do everything.
	SocketMode = 0o600
)

// Config has the neighbours of the gateway for WConfD.
type Config struct {
	Env           *kit.Env
	Locks         *actor.PID
	ClusterConfig *actor.PID
	Leads         func() bool // see conn.Leased
	Policy        access.Policy
}

// Props describes the gateway for Ganeti's WConfD protocol, the actor that accepts its connections and has a child for each.
func Props(c Config) *actor.Props {
	return conn.Props(c.Env, "wconfd", c.Leads, func(g *conn.Gateway) actor.Actor { return &wconfd{g, c} })
}

// wconfd accepts connections and has a child for each.
type wconfd struct {
	*conn.Gateway
	config Config
}

func (g *wconfd) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *conn.Opened:
		g.Accept(ctx, m, func(c conn.Conn, _ uint32) actor.Actor {
			return &connection{config: g.config, peer: m.Peer, session: conn.NewSession(c, g.config.Env.Log())}
		})
	case *messages.LocksStarted:
		g.Broadcast(ctx, m)
	case *messages.Drain:
		g.Drain(ctx, m)
	default:
		kit.Unexpected(ctx)
	}
}
