package wconfd

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/core/config/calls"
	"lockstep/core/config/reserve"
	"lockstep/messages"
)

// connection is the actor of one client's connection: it takes one call of WConfD at a time.
type connection struct {
	config     Config
	peer       conn.Peer
	session    *conn.Session
	identified bool // the configuration's actor knows the peer
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
	case *clusterconfig.CallResult:
		c.session.Answered(ctx, m)
	case *locks.OperateResult:
		c.session.Answered(ctx, m)
	case *messages.Drain:
		c.session.Drain(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

func (c *connection) received(ctx actor.Context, m *conn.Received) {
	request, ok := c.session.Decode(ctx, m)
	if !ok {
		return
	}
	if refusal := c.config.Policy.WConfD(m.From); refusal != nil {
		c.fail(ctx, messages.PrereqFailure(messages.NotPermitted, refusal.Error()))
		return
	}
	c.serve(ctx, request)
}

// refuseArguments answers a call whose arguments do not have the right types, with Ganeti's text.
func (c *connection) refuseArguments(ctx actor.Context, err error) {
	c.fail(ctx, genericError("RPC input: "+err.Error()))
}

// askLocks makes a call to the lock manager. A failure is the answer to the client; any other answer goes to then.
func (c *connection) askLocks(ctx actor.Context, op locks.Operation, then func(ctx actor.Context, value any)) {
	conn.Ask(ctx, &c.session.Conversation, conn.Question{To: c.config.Locks, LostBy: conn.CoreRestart,
		Message: func(number uint64) any { return &locks.Operate{Request: number, Operation: op} }},
		func(ctx actor.Context, a *locks.OperateResult) {
			if a.Failure != nil {
				c.fail(ctx, a.Failure)
				return
			}
			then(ctx, a.Value)
		})
}

// askConfig sends the call to the configuration's actor and answers the client with its result.
func (c *connection) askConfig(ctx actor.Context, call calls.Call, then func(actor.Context, *clusterconfig.CallResult)) {
	caller := reserve.Caller{PID: c.peer.PID, UID: c.peer.UID, Program: c.peer.Program}
	conn.Ask(ctx, &c.session.Conversation, conn.Question{To: c.config.ClusterConfig, LostBy: conn.CoreRestart,
		Message: func(number uint64) any { return &clusterconfig.Call{Request: number, Call: call, Caller: caller} }}, then)
}

// fail answers with a Ganeti error. WConfD errors have a class and a text, without a code.
func (c *connection) fail(ctx actor.Context, f *messages.Failure) {
	c.session.Fail(ctx, &messages.Failure{Class: f.Class, Text: f.Text})
}

func genericError(text string) *messages.Failure {
	return messages.GenericFailure(text)
}
