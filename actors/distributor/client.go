package distributor

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config/model"
)

// Client asks the distributor for an actor. It keeps the newest configuration and the unanswered questions, and sends them again
// to a new incarnation of the distributor.
//
// A Client belongs to one incarnation of its actor. The actor passes each message to Handle first. The actor is one of
// Config.Clients.
type Client struct {
	distributor *actor.PID // nil: no node has a node daemon, and each question is answered at once
	incarnation uint64     // of the distributor; 0: not known yet
	config      *model.Config
	last        uint64
	open        []openAwait // in the order of the questions
}

type openAwait struct {
	request *Await
	done    func(actor.Context)
}

// NewClient makes a client. Without a distributor Await does not wait. incarnation is that of the client's actor: it numbers the
// questions, so that an answer to a former incarnation is recognised.
func NewClient(distributor *actor.PID, incarnation uint32) *Client {
	return &Client{distributor: distributor, last: uint64(incarnation) << 32}
}

// Connect asks the distributor for its incarnation. Messages are kept until the answer comes.
func (c *Client) Connect(ctx actor.Context) {
	if c.distributor != nil {
		ctx.Request(c.distributor, &Announce{})
	}
}

// Distribute tells the distributor of a durable configuration.
func (c *Client) Distribute(ctx actor.Context, config *model.Config) {
	c.config = config
	if c.incarnation != 0 {
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
	c.last++
	a := openAwait{&Await{Request: c.last, Group: group, Force: force}, done}
	c.open = append(c.open, a)
	if c.incarnation != 0 {
		ctx.Request(c.distributor, a.request)
	}
}

// Handle handles the distributor's messages. It returns false for any other message.
func (c *Client) Handle(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *Started:
		c.started(ctx, m.Incarnation)
	case *AwaitResult:
		i := slices.IndexFunc(c.open, func(a openAwait) bool { return a.request.Request == m.Request })
		if i >= 0 {
			done := c.open[i].done
			c.open = slices.Delete(c.open, i, i+1)
			done(ctx)
		}
	default:
		return false
	}
	return true
}

// started sends everything to a new incarnation.
func (c *Client) started(ctx actor.Context, incarnation uint64) {
	if incarnation <= c.incarnation {
		return
	}
	c.incarnation = incarnation
	if c.config != nil {
		ctx.Send(c.distributor, &Distribute{c.config})
	}
	for _, a := range c.open {
		ctx.Request(c.distributor, a.request)
	}
}
