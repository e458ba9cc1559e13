package configstore

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/config/journal"
)

// Client sends an actor's requests. It keeps unanswered requests and repeats them, in order, to a new incarnation of the actor
// that answers them (kit.Asker).
//
// A Client belongs to one incarnation of its actor. The actor passes each message to Handle first.
type Client struct{ asker kit.Asker[any] }

// NewClient makes a client. incarnation is that of its actor: it numbers the requests, so that an answer to a former incarnation
// is recognised.
func NewClient(to *actor.PID, incarnation uint32) *Client {
	return &Client{kit.NewAsker[any](to, incarnation)}
}

// Connect asks for the incarnation. Requests are kept until the answer comes.
func (c *Client) Connect(ctx actor.Context) { c.asker.Connect(ctx, &Announce{}) }

// Handle handles Started and answers. It returns false for any other message.
func (c *Client) Handle(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *Started:
		c.asker.Started(ctx, m.Incarnation)
	case *Loaded:
		c.asker.Answered(ctx, m.Request, m)
	case *AddRecordsResult:
		c.asker.Answered(ctx, m.Request, m)
	case *Committed:
		c.asker.Answered(ctx, m.Request, m)
	case *Flushed:
		c.asker.Answered(ctx, m.Request, m)
	case *Checked:
		c.asker.Answered(ctx, m.Request, m)
	case *Exported:
		c.asker.Answered(ctx, m.Request, m)
	case *ForeignResolved:
		c.asker.Answered(ctx, m.Request, m)
	default:
		return false
	}
	return true
}

// ask sends the request that message makes for a number. done gets its answer.
func ask[A any](ctx actor.Context, c *Client, message func(request uint64) any, done func(actor.Context, A)) {
	c.asker.Ask(ctx, message, func(ctx actor.Context, answer any) { done(ctx, answer.(A)) })
}

// Load is the request Load.
func (c *Client) Load(ctx actor.Context, done func(actor.Context, *Loaded)) {
	ask(ctx, c, func(n uint64) any { return &Load{n} }, done)
}

// AddRecords is the request AddRecords.
func (c *Client) AddRecords(ctx actor.Context, records []*journal.Record, done func(actor.Context, *AddRecordsResult)) {
	ask(ctx, c, func(n uint64) any { return &AddRecords{n, records} }, done)
}

// Commit is the request Commit.
func (c *Client) Commit(ctx actor.Context, changes []journal.Change, done func(actor.Context, *Committed)) {
	ask(ctx, c, func(n uint64) any { return &Commit{n, changes} }, done)
}

// Flush is the request Flush.
func (c *Client) Flush(ctx actor.Context, done func(actor.Context, *Flushed)) {
	ask(ctx, c, func(n uint64) any { return &Flush{n} }, done)
}

// Check is the request Check.
func (c *Client) Check(ctx actor.Context, done func(actor.Context, *Checked)) {
	ask(ctx, c, func(n uint64) any { return &Check{n} }, done)
}

// Export is the request Export.
func (c *Client) Export(ctx actor.Context, adopting bool, done func(actor.Context, *Exported)) {
	ask(ctx, c, func(n uint64) any { return &Export{n, adopting} }, done)
}

// Resolve is the request Adopt or Discard.
func (c *Client) Resolve(ctx actor.Context, adopt bool, done func(actor.Context, *ForeignResolved)) {
	ask(ctx, c, func(n uint64) any {
		if adopt {
			return &Adopt{n}
		}
		return &Discard{n}
	}, done)
}
