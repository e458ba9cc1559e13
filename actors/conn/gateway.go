package conn

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// Props describes the actor of a gateway: one that accepts connections and has a child for each. produce makes its instance for each
// incarnation, with the incarnation's own Gateway. An actor below it that crashes is stopped: its connection is closed, and the client
// sends its request on a new connection.
func Props(env *kit.Env, kind string, leads func() bool, produce func(g *Gateway) actor.Actor) *actor.Props {
	return kit.NumberedProps(env, kind, func(incarnation uint64) actor.Actor {
		return produce(&Gateway{env: env, leads: leads, incarnation: incarnation})
	}, kit.Supervise(env.Strategy(kit.Policy{OnGiveUp: kit.Stop})))
}

// Gateway is the part of a gateway's actor that accepts connections. Each connection has an actor, a child of the
// gateway's.
type Gateway struct {
	env         *kit.Env
	leads       func() bool // see Leased
	incarnation uint64      // of the gateway's actor, from 1
	accepted    uint32      // connections of this incarnation
	draining    bool        // connections are closed instead of accepted
}

// Accept spawns the actor of a new connection. Its number, from 1, is unique in this incarnation. A gateway that is
// draining or stopping closes the connection. A connection that has been accepted is left alone.
func (g *Gateway) Accept(ctx actor.Context, m *Opened, produce func(c Conn, number uint32) actor.Actor) {
	if !m.taken.CompareAndSwap(false, true) {
		return
	}
	c := m.Conn
	if g.draining {
		c.Close()
		return
	}
	g.accepted++
	number := g.accepted
	c = Leased(c, g.leads)
	props := g.env.Props("connection", func() actor.Actor { return produce(c, number) })
	_, err := ctx.SpawnNamed(props, fmt.Sprintf("conn-%d.%d", number, g.incarnation))
	switch {
	case errors.Is(err, kit.ErrStopping):
		c.Close()
	case err != nil:
		panic(fmt.Errorf("spawn a connection: %w", err))
	}
}

// Broadcast sends a message to the actors of all connections.
func (g *Gateway) Broadcast(ctx actor.Context, m any) {
	kit.Publish(ctx, ctx.Children(), m)
}

// Drain refuses new connections, tells the present ones to end after their current request, and answers DrainResult
// at once.
func (g *Gateway) Drain(ctx actor.Context, m *messages.Drain) {
	g.draining = true
	g.Broadcast(ctx, m)
	ctx.Request(ctx.Sender(), &messages.DrainResult{})
}
