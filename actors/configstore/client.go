package configstore

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config/journal"
)

// Client sends an actor's requests. It keeps unanswered requests and repeats them, in order, to a new incarnation of the actor
// that answers them.
//
// A Client belongs to one incarnation of its actor. The actor passes each message to Handle first.
type Client struct {
	to          *actor.PID
	incarnation uint64 // of the answering actor; 0: not known yet
	last        uint64 // number of the last request
	open        []call
}

type call struct {
	number   uint64
	message  any
	answered func(ctx actor.Context, answer any)
}

// NewClient makes a client. incarnation is that of its actor: it numbers the requests, so that an answer to a former incarnation
// is recognised.
func NewClient(to *actor.PID, incarnation uint32) *Client {
	return &Client{to: to, last: uint64(incarnation) << 32}
}

// Connect asks for the incarnation. Requests are kept until the answer comes.
func (c *Client) Connect(ctx actor.Context) { ctx.Request(c.to, &Announce{}) }

// Handle handles Started and answers. It returns false for any other message.
func (c *Client) Handle(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *Started:
		if m.Incarnation > c.incarnation {
			c.incarnation = m.Incarnation
			for _, o := range c.open {
				ctx.Request(c.to, o.message)
			}
		}
	case *Loaded:
		c.answered(ctx, m.Request, m)
	case *AddRecordsResult:
		c.answered(ctx, m.Request, m)
	case *Committed:
		c.answered(ctx, m.Request, m)
	case *Flushed:
		c.answered(ctx, m.Request, m)
	case *Checked:
		c.answered(ctx, m.Request, m)
	case *Exported:
		c.answered(ctx, m.Request, m)
	case *ForeignResolved:
		c.answered(ctx, m.Request, m)
	default:
		return false
	}
	return true
}

func (c *Client) answered(ctx actor.Context, number uint64, answer any) {
	at := slices.IndexFunc(c.open, func(o call) bool { return o.number == number })
	if at < 0 {
		return
	}
	answered := c.open[at].answered
	c.open = slices.Delete(c.open, at, at+1)
	answered(ctx, answer)
}

// ask sends the request that make returns for a number.
func (c *Client) ask(ctx actor.Context, make func(request uint64) any, answered func(actor.Context, any)) {
	c.last++
	m := make(c.last)
	c.open = append(c.open, call{c.last, m, answered})
	if c.incarnation != 0 {
		ctx.Request(c.to, m)
	}
}

// Load is the request Load.
func (c *Client) Load(ctx actor.Context, done func(actor.Context, *Loaded)) {
	c.ask(ctx, func(n uint64) any { return &Load{n} }, func(ctx actor.Context, a any) { done(ctx, a.(*Loaded)) })
}

// AddRecords is the request AddRecords.
func (c *Client) AddRecords(ctx actor.Context, records []*journal.Record, done func(actor.Context, *AddRecordsResult)) {
	c.ask(ctx, func(n uint64) any { return &AddRecords{n, records} }, func(ctx actor.Context, a any) { done(ctx, a.(*AddRecordsResult)) })
}

// Commit is the request Commit.
func (c *Client) Commit(ctx actor.Context, changes []journal.Change, done func(actor.Context, *Committed)) {
	c.ask(ctx, func(n uint64) any { return &Commit{n, changes} }, func(ctx actor.Context, a any) { done(ctx, a.(*Committed)) })
}

// Flush is the request Flush.
func (c *Client) Flush(ctx actor.Context, done func(actor.Context, *Flushed)) {
	c.ask(ctx, func(n uint64) any { return &Flush{n} }, func(ctx actor.Context, a any) { done(ctx, a.(*Flushed)) })
}

// Check is the request Check.
func (c *Client) Check(ctx actor.Context, done func(actor.Context, *Checked)) {
	c.ask(ctx, func(n uint64) any { return &Check{n} }, func(ctx actor.Context, a any) { done(ctx, a.(*Checked)) })
}

// Export is the request Export.
func (c *Client) Export(ctx actor.Context, adopting bool, done func(actor.Context, *Exported)) {
	c.ask(ctx, func(n uint64) any { return &Export{n, adopting} }, func(ctx actor.Context, a any) { done(ctx, a.(*Exported)) })
}

// Resolve is the request Adopt or Discard.
func (c *Client) Resolve(ctx actor.Context, adopt bool, done func(actor.Context, *ForeignResolved)) {
	c.ask(ctx, func(n uint64) any {
		if adopt {
			return &Adopt{n}
		}
		return &Discard{n}
	}, func(ctx actor.Context, a any) { done(ctx, a.(*ForeignResolved)) })
}
