package distributor

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/config/model"
)

// Client is the part of an actor that talks to the distributor. It keeps the newest configuration and the unanswered questions
// (kit.Asker), and sends them again to a new incarnation of the distributor.
//
// A Client belongs to one incarnation of its actor. The actor passes each message to Handle first. The actor is one of
// Config.Clients.
type Client struct {
	distributor *actor.PID // nil: no node has a node daemon, and each question is answered at once
	config      *model.Config
	asker       kit.Asker[*AwaitResult]
}

// NewClient returns the Client by which an actor hands configurations to the distributor and waits for their distribution. distributor is
// nil if no node has a node daemon: then Await does not wait. incarnation is that of the client's actor: it numbers the questions, so that
// an answer to a former incarnation is recognised.
func NewClient(distributor *actor.PID, incarnation uint32) *Client {
	return &Client{distributor: distributor, asker: kit.NewAsker[*AwaitResult](distributor, incarnation)}
}

// Connect asks the distributor for its incarnation. Configurations and questions are kept until the answer comes.
func (c *Client) Connect(ctx actor.Context) {
	if c.distributor != nil {
		c.asker.Connect(ctx, &Announce{})
	}
}

// Distribute makes config, which must be durable, what the distributor sends to the nodes from now on.
func (c *Client) Distribute(ctx actor.Context, config *model.Config) {
	c.config = config
	if c.asker.Epoch() != 0 {
		ctx.Send(c.distributor, &Distribute{config})
	}
}

// Await calls done when an answer that waits for the distribution of the newest configuration may leave. group and force are
// those of the message Await.
func (c *Client) Await(ctx actor.Context, group string, force bool, done func(actor.Context)) {
	if c.distributor == nil {
		done(ctx)
		return
	}
	c.asker.Ask(ctx, func(n uint64) any { return &Await{Request: n, Group: group, Force: force} },
		func(ctx actor.Context, _ *AwaitResult) { done(ctx) })
}

// Handle takes Started and AwaitResult. It returns false for a message that is not for the client.
func (c *Client) Handle(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *Started:
		if m.Incarnation > c.asker.Epoch() && c.config != nil {
			ctx.Send(c.distributor, &Distribute{c.config}) // before the questions, which wait for this configuration
		}
		c.asker.Started(ctx, m.Incarnation)
	case *AwaitResult:
		c.asker.Answered(ctx, m.Request, m)
	default:
		return false
	}
	return true
}
