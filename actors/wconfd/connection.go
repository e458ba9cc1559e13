package wconfd

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/core/wire"
	"lockstep/messages"
)

// connection serves one client, one call at a time. A call is a conversation of
// one or more questions, of which one is open at a time.
type connection struct {
	config Config
	conn   conn.Conn

	request  uint64 // number of the last question
	resend   func(actor.Context)
	onAnswer func(actor.Context, any) // nil: no call at hand
	closing  bool                     // after the answer at hand
}

func (c *connection) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.conn.Serve(ctx.Self())
	case *conn.Received:
		c.received(ctx, m.Frame)
	case *conn.Refused:
		c.refuse(ctx, m.Err)
	case *conn.Closed:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.conn.Close()
	case *messages.LocksStarted:
		if c.onAnswer != nil {
			c.resend(ctx) // every call may come twice (locks.md 2.1)
		}
	case *messages.ConfigPublished:
		c.answered(ctx, m.Request, m)
	case *locks.CallResult:
		c.answered(ctx, m.Request, m)
	case *messages.WriteConfigResult:
		c.answered(ctx, m.Request, m)
	case *messages.EditConfigResult:
		c.answered(ctx, m.Request, m)
	case *messages.Drain:
		c.closing = true
		if c.onAnswer == nil {
			ctx.Stop(ctx.Self())
		}
	default:
		kit.Unexpected(ctx)
	}
}

func (c *connection) answered(ctx actor.Context, request uint64, m any) {
	if c.onAnswer != nil && request == c.request {
		c.onAnswer(ctx, m)
	}
}

func (c *connection) received(ctx actor.Context, frame []byte) {
	call, err := wire.DecodeRequest(frame)
	if err != nil {
		c.refuse(ctx, err)
		return
	}
	serve, own := functions[call.Method]
	if !own {
		serve = forwardToLocks
	}
	if err := serve(c, ctx, call); err != nil {
		c.fail(ctx, genericError("RPC input: "+err.Error()))
	}
}

// ask sends a question, and sends it again to whoever may have lost it.
func (c *connection) ask(ctx actor.Context, question func(ctx actor.Context, request uint64), onAnswer func(actor.Context, any)) {
	c.request++
	number := c.request
	c.resend = func(ctx actor.Context) { question(ctx, number) }
	c.onAnswer = onAnswer
	c.resend(ctx)
}

// askLocks makes a call to the lock manager.
func (c *connection) askLocks(ctx actor.Context, op locks.Operation, answer func(ctx actor.Context, value any)) {
	c.ask(ctx,
		func(ctx actor.Context, request uint64) {
			ctx.Request(c.config.Locks, &locks.Call{Request: request, Operation: op})
		},
		func(ctx actor.Context, m any) {
			a := m.(*locks.CallResult)
			if a.Failure != nil {
				c.fail(ctx, a.Failure)
				return
			}
			answer(ctx, a.Value)
		})
}

func (c *connection) askConfig(ctx actor.Context, answer func(actor.Context, []byte)) {
	c.ask(ctx,
		func(ctx actor.Context, request uint64) {
			ctx.Request(c.config.ClusterConfig, &messages.PublishConfig{Request: request})
		},
		func(ctx actor.Context, m any) { answer(ctx, m.(*messages.ConfigPublished).Content) })
}

// write has the configuration written, by a question that carries the new one.
func (c *connection) write(ctx actor.Context, question func(request uint64) any, done func(actor.Context)) {
	c.ask(ctx,
		func(ctx actor.Context, request uint64) { ctx.Request(c.config.ClusterConfig, question(request)) },
		func(ctx actor.Context, m any) {
			if f := m.(interface{ GetFailure() *messages.Failure }).GetFailure(); f != nil {
				c.fail(ctx, f)
				return
			}
			done(ctx)
		})
}

func (c *connection) answer(ctx actor.Context, frame []byte) {
	c.request++
	c.resend, c.onAnswer = nil, nil
	c.conn.Answer(frame)
	if c.closing {
		ctx.Stop(ctx.Self())
	}
}

func (c *connection) succeed(ctx actor.Context, result any) {
	frame, err := wire.EncodeResult(result)
	if err != nil {
		c.config.Env.Log().WithField("err", err).Error("an answer cannot be encoded")
		c.fail(ctx, messages.ProgrammerFailure("the answer cannot be encoded: "+err.Error()))
		return
	}
	c.answer(ctx, frame)
}

// fail answers with a Ganeti error; the connection stays.
func (c *connection) fail(ctx actor.Context, f *messages.Failure) {
	c.answer(ctx, wire.EncodeError(f.Class, f.Text))
}

// refuse answers a request that is not one, and closes the connection.
func (c *connection) refuse(ctx actor.Context, err error) {
	c.closing = true
	c.answer(ctx, wire.EncodeParseError("Failed to parse request: "+err.Error()))
}

func genericError(text string) *messages.Failure {
	return messages.GenericFailure(text)
}
