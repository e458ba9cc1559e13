package wconfd

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/locks"
	"lockstep/core/config/calls"
	"lockstep/core/lock"
	"lockstep/core/wire"
)

// serve serves a call: echo at once, a call about the configuration or the reservations by the configuration's actor, lockConfig by both
// actors, any other call by the lock manager. A call without a result answers with the empty list, which Ganeti's clients require.
func (c *connection) serve(ctx actor.Context, request wire.Request) {
	if request.Method == "echo" {
		c.echo(ctx, request)
		return
	}
	call, err := calls.Parse(request.Method, request.Args)
	var bad *calls.Error
	switch {
	case errors.As(err, &bad):
		c.answerError(ctx, bad)
	case err != nil: // calls.ErrNoCall
		c.callLocks(ctx, request)
	case request.Method == "lockConfig":
		c.lockConfig(ctx, request, call)
	default:
		c.callConfig(ctx, call)
	}
}

func (c *connection) echo(ctx actor.Context, request wire.Request) {
	var text string
	if err := lock.Arguments(request.Args, &text); err != nil {
		c.refuseArguments(ctx, err)
		return
	}
	c.session.Succeed(ctx, text)
}

func (c *connection) callLocks(ctx actor.Context, request wire.Request) {
	op, err := locks.Parse(request.Method, request.Args)
	switch {
	case errors.Is(err, lock.ErrNoFunction):
		c.fail(ctx, genericError("No such method: "+request.Method))
	case err != nil:
		c.refuseArguments(ctx, err)
	default:
		c.identify(ctx, op)
		c.askLocks(ctx, op, func(ctx actor.Context, value any) { c.session.Succeed(ctx, locks.Encode(value)) })
	}
}

// identify tells the configuration's actor, once, that the peer has named itself in a call as the owner with its own pid.
func (c *connection) identify(ctx actor.Context, op locks.Operation) {
	var o lock.Owner // named only by calls that act for an owner
	switch op := op.(type) {
	case locks.Apply:
		o = op.Call.Owner
	case locks.Await:
		o = op.Pending.Owner
	case locks.AwaitUnion:
		o = op.Owner
	}
	if !c.identified && o.PID == c.peer.PID && o.PID != 0 {
		c.identified = true
		ctx.Send(c.config.ClusterConfig, &clusterconfig.Identified{PID: o.PID, Owner: o})
	}
}

func (c *connection) callConfig(ctx actor.Context, call calls.Call) {
	c.askConfig(ctx, call, func(ctx actor.Context, r *clusterconfig.CallResult) {
		switch {
		case r.Error != nil:
			c.answerError(ctx, r.Error)
		case r.Snapshot != nil:
			c.session.Answer(ctx, r.Snapshot.Frame()...)
		default:
			c.session.Answer(ctx, wire.EncodeRawResult(r.Result))
		}
	})
}

func (c *connection) answerError(ctx actor.Context, e *calls.Error) {
	c.session.Answer(ctx, wire.EncodeError(e.Class, e.Args()...))
}

// lockConfig takes the configuration lock and answers with the configuration, or with null if another owner holds the
// lock. It never waits for the lock. An owner that already holds the lock has made the call before and lost the answer.
func (c *connection) lockConfig(ctx actor.Context, request wire.Request, call calls.Call) {
	var owner lock.Owner
	var shared bool
	if err := lock.Arguments(request.Args, &owner, &shared); err != nil {
		c.refuseArguments(ctx, err)
		return
	}
	mode := lock.Exclusive
	if shared {
		mode = lock.Shared
	}
	c.configLockMode(ctx, owner, func(ctx actor.Context, has lock.Mode) {
		if has >= mode {
			c.callConfig(ctx, call)
			return
		}
		want := lock.Request{{Lock: lock.ConfigLock, Mode: mode}}
		c.askLocks(ctx, locks.Apply{Call: lock.TryUpdateLocks(owner, want)}, func(ctx actor.Context, value any) {
			if blockers := value.([]lock.Owner); len(blockers) > 0 {
				c.session.Succeed(ctx, nil)
				return
			}
			c.callConfig(ctx, call)
		})
	})
}

// configLockMode asks in which mode an owner holds the configuration lock; lock.None: it does not.
func (c *connection) configLockMode(ctx actor.Context, owner lock.Owner, answer func(actor.Context, lock.Mode)) {
	c.askLocks(ctx, locks.Apply{Call: lock.ListLocks(owner)}, func(ctx actor.Context, value any) {
		has := lock.None
		for _, i := range value.([]lock.Item) {
			if i.Lock == lock.ConfigLock {
				has = i.Mode
			}
		}
		answer(ctx, has)
	})
}
