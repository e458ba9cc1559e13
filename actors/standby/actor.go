// Package standby is the gateway of a node that is not the master. It answers on the same sockets as the master's
// gateways, and names the master (design.md "Master").
//
// The standby actor accepts connections and starts an actor for each. That actor asks the replicator which nodes the
// cluster has and which is the master, and sends the answer to its client. It looks up in this node's access.json which
// role a client has that has none without a grant. A client may ask to be forwarded: its connection's actor then owns a
// tunnel, which carries the client's requests to the master. All connections end when this node becomes the master. A
// forwarded connection ends when another node becomes the master. After a crash of a connection's actor that connection
// is closed, and nothing of it is kept.
package standby

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/luxi/call"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/messages"
)

// Tunnels is the port that opens connections to the master for clients of this node.
type Tunnels interface {
	// Open makes a tunnel to the node at that address, and does not block. The actor gets each answer as
	// *TunnelAnswer and the end of the tunnel as *TunnelClosed.
	Open(address string, to *actor.PID) Tunnel
}

// Messages from a tunnel to the actor of its connection.
type (
	// TunnelAnswer tells a connection's actor the master's answer to the request that it has sent through its tunnel.
	TunnelAnswer struct{ Frame []byte }
	// TunnelClosed tells a connection's actor that its tunnel has ended: no answer will follow.
	TunnelClosed struct{}
)

// Tunnel is one connection to the master. Methods do not block.
type Tunnel interface {
	// Send passes a request on. The caller sends the next one after the answer.
	Send(frame []byte)
	Close()
}

// Config has the neighbours and ports of the gateway of a node that is not the master.
type Config struct {
	Env        *kit.Env
	Replicator *actor.PID // the replicator
	Store      *actor.PID // of this node, with the grants
	Policy     access.Policy
	Tunnels    Tunnels // nil: clients are not forwarded
	Name       string  // of this node
	About      call.About
}

// Props describes the gateway of a node that is not the master: it names the master to clients, or forwards them.
func Props(c Config) *actor.Props {
	return conn.Props(c.Env, "standby", nil, func(g *conn.Gateway) actor.Actor { return &standby{g, c} })
}

// standby accepts connections and has a child for each.
type standby struct {
	*conn.Gateway
	config Config
}

func (g *standby) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *conn.Opened:
		g.Accept(ctx, m, func(c conn.Conn, number uint32) actor.Actor {
			return &connection{config: g.config, session: conn.NewSession(c, g.config.Env.Log()), store: store.NewClient(g.config.Store, number)}
		})
	case *messages.LogLeaderChanged:
		g.Broadcast(ctx, m)
	case *messages.BecomeMaster:
		// The clients connect again and find the gateways of the master.
		for _, pid := range ctx.Children() {
			ctx.Stop(pid)
		}
	case *messages.Drain:
		// Drain closes no connection: the stop of this actor, which follows, closes all of them.
		ctx.Request(ctx.Sender(), &messages.DrainResult{})
	default:
		kit.Unexpected(ctx)
	}
}
