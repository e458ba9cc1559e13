package wconfd

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/messages"
)

// connection serves one client, one call at a time.
type connection struct {
	config  Config
	session *conn.Session
}

func (c *connection) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.session.Serve(ctx)
	case *conn.Received:
		c.received(ctx, m)
	case *conn.Refused:
		c.session.Refuse(ctx, m.Err)
	case *conn.Closed:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.session.Close()
	case *messages.LocksStarted:
		c.session.Restarted(ctx, conn.CoreRestart)
	case *messages.ConfigPublished:
		c.session.Answered(ctx, m)
	case *locks.CallResult:
		c.session.Answered(ctx, m)
	case *messages.WriteConfigResult:
		c.session.Answered(ctx, m)
	case *messages.EditConfigResult:
		c.session.Answered(ctx, m)
	case *messages.Drain:
		c.session.Drain(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

func (c *connection) received(ctx actor.Context, m *conn.Received) {
	call, ok := c.session.Decode(ctx, m)
	if !ok {
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

// failing is an answer that may say that the question failed.
type failing interface {
	conn.Answer
	GetFailure() *messages.Failure
}

// ask sends a question. A failure is the answer to the client; any other answer goes to then.
func ask[A failing](c *connection, ctx actor.Context, to *actor.PID, question func(number uint64) any, then func(actor.Context, A)) {
	conn.Ask(ctx, &c.session.Conversation, conn.Question{To: to, Message: question, LostBy: conn.CoreRestart}, func(ctx actor.Context, a A) {
		if f := a.GetFailure(); f != nil {
			c.fail(ctx, f)
			return
		}
		then(ctx, a)
	})
}

// askLocks makes a call to the lock manager.
func (c *connection) askLocks(ctx actor.Context, op locks.Operation, then func(ctx actor.Context, value any)) {
	ask(c, ctx, c.config.Locks, func(number uint64) any { return &locks.Call{Request: number, Operation: op} },
		func(ctx actor.Context, a *locks.CallResult) { then(ctx, a.Value) })
}

// askConfig asks for the configuration.
func (c *connection) askConfig(ctx actor.Context, then func(ctx actor.Context, content []byte)) {
	conn.Ask(ctx, &c.session.Conversation, conn.Question{To: c.config.ClusterConfig, LostBy: conn.CoreRestart,
		Message: func(number uint64) any { return &messages.PublishConfig{Request: number} }},
		func(ctx actor.Context, a *messages.ConfigPublished) { then(ctx, a.Content) })
}

// writeConfig replaces the configuration.
func (c *connection) writeConfig(ctx actor.Context, content []byte, then func(actor.Context)) {
	ask(c, ctx, c.config.ClusterConfig, func(number uint64) any { return &messages.WriteConfig{Request: number, Content: content} },
		func(ctx actor.Context, _ *messages.WriteConfigResult) { then(ctx) })
}

// editCluster changes fields of the configuration's cluster object, JSON values by name.
func (c *connection) editCluster(ctx actor.Context, fields map[string][]byte, then func(actor.Context)) {
	ask(c, ctx, c.config.ClusterConfig, func(number uint64) any { return &messages.EditConfig{Request: number, Cluster: fields} },
		func(ctx actor.Context, _ *messages.EditConfigResult) { then(ctx) })
}

// fail answers with a Ganeti error. WConfD errors have a class and a text, without a code.
func (c *connection) fail(ctx actor.Context, f *messages.Failure) {
	c.session.Fail(ctx, &messages.Failure{Class: f.Class, Text: f.Text})
}

func genericError(text string) *messages.Failure {
	return messages.GenericFailure(text)
}
