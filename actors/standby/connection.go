package standby

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/luxi"
	"lockstep/core/wire"
	"lockstep/messages"
)

// ForwardMethod is the call by which a client asks to be carried on to the master:
// what it sends from then on, the master answers.
const ForwardMethod = "LockstepForward"

// connection serves one client, one request at a time.
type connection struct {
	config   Config
	conn     conn.Conn
	tunnel   Tunnel // nil: it is served here
	master   string // to which the tunnel leads
	self     string // the node that it leads from
	request  uint64
	onAnswer func(actor.Context, *messages.GetNodesResult) // nil: no request at hand
}

func (c *connection) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.conn.Serve(ctx.Self())
	case *conn.Received:
		c.received(ctx, m)
	case *conn.Refused:
		c.conn.Answer(wire.EncodeParseError("Failed to parse request: " + m.Err.Error()))
		ctx.Stop(ctx.Self())
	case *conn.Closed:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.conn.Close()
		if c.tunnel != nil {
			c.tunnel.Close()
		}
	case *TunnelAnswer:
		c.conn.Answer(m.Frame)
	case *TunnelClosed:
		ctx.Stop(ctx.Self())
	case *messages.LogLeaderChanged:
		// A master that was cut off does not say so: its client must not wait for it.
		if c.tunnel != nil && m.Leader != c.master {
			ctx.Stop(ctx.Self())
		}
	case *messages.GetNodesResult:
		if c.onAnswer != nil && m.Request == c.request {
			answers := c.onAnswer
			c.onAnswer = nil
			answers(ctx, m)
		}
	default:
		kit.Unexpected(ctx)
	}
}

func (c *connection) received(ctx actor.Context, m *conn.Received) {
	if c.tunnel != nil {
		by := ""
		if m.By != "" {
			by = m.By + ", node=" + c.self
		}
		c.tunnel.Send(wire.WithUser(m.Frame, by))
		return
	}
	call, err := wire.DecodeRequest(m.Frame)
	if err != nil {
		c.conn.Answer(wire.EncodeParseError("Failed to parse request: " + err.Error()))
		ctx.Stop(ctx.Self())
		return
	}
	switch call.Method {
	case luxi.NodesMethod:
		c.ask(ctx, true, c.list)
	case ForwardMethod:
		c.ask(ctx, false, c.forward)
	default:
		c.ask(ctx, false, c.answerNotMaster)
	}
}

func (c *connection) ask(ctx actor.Context, all bool, answers func(actor.Context, *messages.GetNodesResult)) {
	c.request++
	c.onAnswer = answers
	ctx.Request(c.config.Nodes, &messages.GetNodes{Request: c.request, WithStates: all})
}

func (c *connection) list(_ actor.Context, n *messages.GetNodesResult) {
	frame, err := wire.EncodeResult(luxi.NodesOf(n))
	if err != nil {
		frame = wire.EncodeError("ProgrammerError", err.Error())
	}
	c.conn.Answer(frame)
}

// answerNotMaster says who is the master: class NotMaster, with a text, its name and address.
func (c *connection) answerNotMaster(_ actor.Context, n *messages.GetNodesResult) {
	text := fmt.Sprintf("This node, %s, is not the master of the cluster, and has found no other: a majority of the nodes that vote must reach each other. See lockstep node list", n.Self)
	if masterKnown(n) {
		text = fmt.Sprintf("This node, %s, is not the master of the cluster; %s at %s is", n.Self, n.Master, n.MasterAddress)
	}
	c.conn.Answer(wire.EncodeError("NotMaster", text, n.Master, n.MasterAddress))
}

func (c *connection) forward(ctx actor.Context, n *messages.GetNodesResult) {
	if !masterKnown(n) || c.config.Tunnels == nil {
		c.answerNotMaster(ctx, n)
		return
	}
	c.tunnel, c.master, c.self = c.config.Tunnels.Open(n.MasterAddress, ctx.Self()), n.Master, n.Self
	frame, err := wire.EncodeResult(nil)
	if err != nil {
		frame = wire.EncodeError("ProgrammerError", err.Error())
	}
	c.conn.Answer(frame)
}

// masterKnown: another node is the master. That this one is to be it, and is not yet, is no
// answer.
func masterKnown(n *messages.GetNodesResult) bool { return n.Master != "" && n.Master != n.Self }
