package standby

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/luxi/call"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/messages"
)

// ForwardMethod is the call by which a client asks to be forwarded to the master. The answer is null; the master
// answers all further requests of the connection.
const ForwardMethod = "LockstepForward"

// connection is the actor of one client's connection at a node that is not the master: it takes one request at a time.
type connection struct {
	config  Config
	session *conn.Session
	store   *store.Client
	tunnel  Tunnel // to the master; nil: requests are answered here
	master  string // node at the other end of the tunnel
	self    string // this node, as the replicator names it
}

func (c *connection) Receive(ctx actor.Context) {
	if c.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.store.Connect(ctx)
		c.session.Serve(ctx)
	case *conn.Received:
		c.received(ctx, m)
	case *conn.Refused:
		c.session.Refuse(ctx, m.Err)
	case *conn.Closed:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.session.Close()
		if c.tunnel != nil {
			c.tunnel.Close()
		}
	case *TunnelAnswer:
		c.session.Answer(ctx, m.Frame)
	case *TunnelClosed:
		ctx.Stop(ctx.Self())
	case *messages.LogLeaderChanged:
		// A former master that is cut off does not close the tunnel. The client must not wait for it.
		if c.tunnel != nil && m.Leader != c.master {
			ctx.Stop(ctx.Self())
		}
	case *messages.GetNodesResult:
		c.session.Answered(ctx, m)
	default:
		kit.Unexpected(ctx)
	}
}

func (c *connection) received(ctx actor.Context, m *conn.Received) {
	if c.tunnel != nil {
		c.passOn(m)
		return
	}
	request, ok := c.session.Decode(ctx, m)
	switch {
	case !ok:
	case request.Method == call.NodesMethod:
		c.ifPermitted(ctx, m, request, func(ctx actor.Context) { c.ask(ctx, true, c.list) })
	case request.Method == ForwardMethod:
		c.ask(ctx, false, c.forward)
	default:
		c.ask(ctx, false, c.answerNotMaster)
	}
}

// ifPermitted goes on if the policy permits the request, and refuses it otherwise. The grants of this node's disk count.
func (c *connection) ifPermitted(ctx actor.Context, m *conn.Received, request wire.Request, then func(actor.Context)) {
	from, policy := m.From, c.config.Policy
	if m.Forwarded {
		from = access.DecodeForwarded(request.From, request.User)
	}
	if policy.Method(from, request.Method, request.Args) == nil {
		then(ctx)
		return
	}
	c.store.Read(ctx, "grants", paths.AccessPath, func(ctx actor.Context, file *messages.ReadFileResult) {
		policy.Grants, _ = access.DecodeGrants(file.Content) // a file that cannot be used gives no role
		if err := policy.Method(from, request.Method, request.Args); err != nil {
			c.session.Fail(ctx, messages.PrereqFailure(messages.NotPermitted, err.Error()))
			return
		}
		then(ctx)
	})
}

// passOn sends a request through the tunnel, with this node's knowledge of the client in place of the request's own
// claim.
func (c *connection) passOn(m *conn.Received) {
	by, from := "", m.From
	if m.By != "" {
		by = m.By + ", node=" + c.self
	}
	from.Node = c.self
	c.tunnel.Send(wire.WithUser(m.Frame, by, from.Encode()))
}

// ask asks the replicator about the nodes. The question is sent once: if the replicator restarts, the client's own
// timeout ends its wait.
func (c *connection) ask(ctx actor.Context, withStates bool, then func(actor.Context, *messages.GetNodesResult)) {
	conn.Ask(ctx, &c.session.Conversation, conn.Question{To: c.config.Replicator,
		Message: func(number uint64) any { return &messages.GetNodes{Request: number, WithStates: withStates} }}, then)
}

func (c *connection) list(ctx actor.Context, n *messages.GetNodesResult) {
	nodes := call.NodesOf(n)
	nodes.Console = c.config.About.ConsoleAddress()
	c.session.Succeed(ctx, nodes)
}

// answerNotMaster names the master: an error of class NotMaster with a text, the master's name and its address.
func (c *connection) answerNotMaster(ctx actor.Context, n *messages.GetNodesResult) {
	text := fmt.Sprintf("This node, %s, is not the master of the cluster, and has found no other: "+
		"a majority of the nodes that vote must reach each other. See lockstep node list", n.Self)
	if masterKnown(n) {
		text = fmt.Sprintf("This node, %s, is not the master of the cluster; %s at %s is", n.Self, n.Master, n.MasterAddress)
	}
	c.session.Answer(ctx, wire.EncodeError("NotMaster", text, n.Master, n.MasterAddress))
}

func (c *connection) forward(ctx actor.Context, n *messages.GetNodesResult) {
	if !masterKnown(n) || c.config.Tunnels == nil {
		c.answerNotMaster(ctx, n)
		return
	}
	c.tunnel, c.master, c.self = c.config.Tunnels.Open(n.MasterAddress, ctx.Self()), n.Master, n.Self
	c.session.Succeed(ctx, nil)
}

// masterKnown reports whether another node is the master. While this node is becoming the master there is none to
// name.
func masterKnown(n *messages.GetNodesResult) bool { return n.Master != "" && n.Master != n.Self }
