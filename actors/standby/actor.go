// Package standby is the gateway of a node that is not the master: it answers on
// the same sockets, and says who is (design.md 9).
//
// The gateway owns the connections; each has an actor of its own. They ask the
// replicator who the nodes are, and tell only their client. A client that asks for it
// is carried on to the master: its requests go through a tunnel, which belongs to its
// connection. Nothing survives the crash of a connection's actor: its connection is
// closed.
package standby

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/luxi"
	"lockstep/messages"
)

// Tunnels carry requests to the master.
type Tunnels interface {
	// Open leads to the node at that address. What comes back is told to an actor, as
	// Carried, and that the other end is gone, as Collapsed. It does not block.
	Open(address string, to *actor.PID) Tunnel
}

// What a tunnel tells.
type (
	// TunnelAnswer is the answer to a request.
	TunnelAnswer struct{ Frame []byte }
	// TunnelClosed: there will be no answer any more.
	TunnelClosed struct{}
)

// Tunnel is one connection to the master. Methods do not block.
type Tunnel interface {
	// Send passes a request on. The next is not sent before it is answered.
	Send(frame []byte)
	Close()
}

// Config is what the gateway needs.
type Config struct {
	Env     *kit.Env
	Nodes   *actor.PID // the replicator
	Tunnels Tunnels
	Name    string // of this node
	About   luxi.About
}

// Props makes the gateway.
func Props(c Config) *actor.Props {
	incarnation := uint64(0)
	return c.Env.Props("reception", func() actor.Actor {
		incarnation++
		return &gateway{config: c, incarnation: incarnation}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Stop})))
}

type gateway struct {
	config      Config
	incarnation uint64
	counter     uint32
}

func (r *gateway) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *conn.Opened:
		r.counter++
		config := r.config
		conn.Spawn(ctx, config.Env, m.Conn, fmt.Sprintf("conn-%d.%d", r.counter, r.incarnation),
			func() actor.Actor { return &connection{config: config, conn: m.Conn} })
	case *messages.LogLeaderChanged:
		for _, pid := range ctx.Children() {
			ctx.Send(pid, m)
		}
	case *messages.BecomeMaster:
		// Who is here asks again, and finds the master.
		for _, pid := range ctx.Children() {
			ctx.Stop(pid)
		}
	case *messages.Drain:
		ctx.Request(ctx.Sender(), &messages.DrainResult{})
	default:
		kit.Unexpected(ctx)
	}
}
