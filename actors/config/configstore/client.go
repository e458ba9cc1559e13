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

// NewClient returns the Client by which one incarnation of an actor sends its requests to the actor to. incarnation is its number: it is
// part of the number of each request, so that an answer to a former incarnation is recognised and dropped.
func NewClient(to *actor.PID, incarnation uint32) *Client {
	return &Client{kit.NewAsker[any](to, incarnation)}
}

// Connect announces the client to the actor that it asks. Requests are kept until Started, the answer, has come.
func (c *Client) Connect(ctx actor.Context) { c.asker.Connect(ctx, &Announce{}) }

// Handle takes Started and the answers of the asked actor, and calls the function of the request. It returns false for a message that is
// not for the client.
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

// Load asks for the state on the disk, by the message Load. done gets the answer, once.
func (c *Client) Load(ctx actor.Context, done func(actor.Context, *Loaded)) {
	ask(ctx, c, func(n uint64) any { return &Load{n} }, done)
}

// AddRecords asks to append records to the journal, by the message AddRecords. done gets the answer when they are durable or refused.
func (c *Client) AddRecords(ctx actor.Context, records []*journal.Record, done func(actor.Context, *AddRecordsResult)) {
	ask(ctx, c, func(n uint64) any { return &AddRecords{n, records} }, done)
}

// Commit hands over what the log of the cluster says of the configuration, by the message Commit. done gets the answer when that is
// durable.
func (c *Client) Commit(ctx actor.Context, changes []journal.Change, done func(actor.Context, *Committed)) {
	ask(ctx, c, func(n uint64) any { return &Commit{n, changes} }, done)
}

// Flush asks for a fold now, by the message Flush. done gets the answer when config.data has all records so far.
func (c *Client) Flush(ctx actor.Context, done func(actor.Context, *Flushed)) {
	ask(ctx, c, func(n uint64) any { return &Flush{n} }, done)
}

// Check asks whether another program has changed config.data, by the message Check.
func (c *Client) Check(ctx actor.Context, done func(actor.Context, *Checked)) {
	ask(ctx, c, func(n uint64) any { return &Check{n} }, done)
}

// Export asks for the state as contents of files, by the message Export. adopting: the state that the foreign content would lead to.
func (c *Client) Export(ctx actor.Context, adopting bool, done func(actor.Context, *Exported)) {
	ask(ctx, c, func(n uint64) any { return &Export{n, adopting} }, done)
}

// Resolve accepts the foreign content of config.data (adopt) or replaces it by the state, by the message Adopt or Discard.
func (c *Client) Resolve(ctx actor.Context, adopt bool, done func(actor.Context, *ForeignResolved)) {
	ask(ctx, c, func(n uint64) any {
		if adopt {
			return &Adopt{n}
		}
		return &Discard{n}
	}, done)
}
