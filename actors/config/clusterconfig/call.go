package clusterconfig

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/core/config/calls"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/messages"
)

// request is a call with the way to its answer.
type request struct {
	call     calls.Call
	caller   reserve.Caller
	origin   kit.Deferral[any]
	patience time.Duration
	// answer is called once. config is the result if the Outcome says so.
	answer func(ctx actor.Context, out calls.Outcome, config *model.Config)

	// held are the locks of the client, if areHeld: its call is checked.
	held    []lock.Item
	areHeld bool

	number uint64 // while it waits
	stop   func() bool
}

// call serves a call of a client. One that only reads is answered at once from the durable state. Another one is applied in its turn,
// when it is known which locks the client holds.
func (c *clusterconfig) call(ctx actor.Context, m *Call, sender *actor.PID) {
	c.callers.identify(m.Caller.PID, m.Call.Owner)
	r := &request{call: m.Call, caller: c.callers.named(m.Caller),
		origin: kit.Deferral[any]{Message: m, Sender: sender}, patience: callPatience}
	r.answer = func(ctx actor.Context, out calls.Outcome, config *model.Config) {
		answer := &CallResult{Request: m.Request, Result: out.Result, Error: out.Err}
		if out.Err == nil && out.IsConfig {
			answer.Snapshot = c.snapshotOf(config)
		}
		ctx.Send(sender, answer)
	}
	switch {
	case m.Call.OnlyReads():
		_, out := m.Call.Apply(c.commits.durable, calls.Env{})
		r.answer(ctx, out, c.commits.durable.Config)
	case m.Call.ChecksLocks() || c.asking > 0: // calls do not overtake others
		c.askHeld(ctx, r)
	default:
		c.proceed(ctx, r)
	}
}

// askHeld asks the lock manager which locks the client has, and then continues the call. Without an answer the call is not checked.
func (c *clusterconfig) askHeld(ctx actor.Context, r *request) {
	by := r.author().Caller
	c.asking++
	c.lockCalls.ask(ctx, locks.ListHeld{Owner: by.Owner, PID: by.PID}, func(ctx actor.Context, a *locks.OperateResult) {
		c.asking--
		if r.call.ChecksLocks() {
			r.held, r.areHeld = a.Value.([]lock.Item)
		}
		if c.ready(r.origin.Message, r.origin.Sender) { // else a call before it has found another state on the disk
			c.proceed(ctx, r)
		}
	})
}

// proceed applies a call at once, or lets it wait while another client has the configuration locked.
func (c *clusterconfig) proceed(ctx actor.Context, r *request) {
	if c.mustWait(r) {
		c.wait(ctx, r)
		return
	}
	c.apply(ctx, r)
}

func (c *clusterconfig) snapshotOf(config *model.Config) *calls.Snapshot {
	if c.snapshot != nil && c.snapshot.Config == config {
		return c.snapshot
	}
	return calls.NewSnapshot(config)
}

// apply executes a call in memory and sends its record to the storage. The answer waits for it, also that of a call that failed or
// changed nothing: it tells of the changes before.
func (c *clusterconfig) apply(ctx actor.Context, r *request) {
	before := c.commits.state
	now := model.Time(float64(c.config.Env.Clock().Now().UnixMicro()) / 1e6)
	after, out := r.call.Apply(before, calls.Env{Now: now, Caller: r.caller, Random: c.config.Random, Locks: c.locks.forClient(r.call.Owner)})
	by := r.author()
	if r.areHeld && out.Changed {
		by.Unlocked = r.call.Unlocked(before.Config, after.Config, out.Touched, calls.Holds(r.held))
	}
	if len(by.Unlocked) > 0 && c.foundUnlocked(ctx, r, by) {
		return
	}
	if out.ReservedChanged {
		// Before the reservation is durable: the caller may die meanwhile, and nothing else would release what it has reserved.
		c.callers.watch(by.Caller)
	}
	c.commits.add(&change{origin: r.origin, after: after,
		record: journal.NewRecord(c.commits.made+1, stateOf(before), stateOf(after), out.Touched, now, by),
		done: func(ctx actor.Context, f *messages.Failure) {
			if f != nil {
				r.answer(ctx, calls.Outcome{Err: errorOf(f)}, nil)
				return
			}
			c.finish(ctx, r, out, after.Config)
		}})
	if out.Changed {
		c.dropForDisks(ctx, out.Touched)
	}
	c.write(ctx)
}

// author is who makes the change: the client that the call names, or else the process at the other end.
func (r *request) author() journal.Author {
	a := journal.Author{Caller: r.caller, Method: r.call.Method}
	if r.call.Owner != (lock.Owner{}) {
		a.Caller = reserve.Caller{Known: true, Owner: r.call.Owner}
	}
	if o := a.Caller.Owner; a.Caller.Known && !o.Named {
		a.Job = int64(o.Job)
	}
	return a
}

// finish continues with a durable call: if the call waits for distribution, config.data is written and the nodes have it or
// were given up (config.md 8.2); then locks are freed, then the call is answered. A change that cannot be written to config.data is
// in the journal, so only a call for the write itself fails.
func (c *clusterconfig) finish(ctx actor.Context, r *request, out calls.Outcome, config *model.Config) {
	if !out.Flush && !out.Await {
		c.freeLocks(ctx, r, out, config)
		return
	}
	c.storage.Flush(ctx, func(ctx actor.Context, a *configstore.Flushed) {
		f := a.Failure
		if f != nil {
			c.config.Env.Log().WithFields(logrus.Fields{"err": f.Text}).Error("config.data cannot be written; the journal has the changes")
		}
		if f != nil && out.Flush {
			out.Err = errorOf(messages.ConfigurationFailure("The configuration cannot be written: " + f.Text))
			c.freeLocks(ctx, r, out, config)
			return
		}
		c.distributor.Await(ctx, out.FlushGroup, out.Flush, func(ctx actor.Context) { c.freeLocks(ctx, r, out, config) })
	})
}

func (c *clusterconfig) freeLocks(ctx actor.Context, r *request, out calls.Outcome, config *model.Config) {
	var op locks.Operation
	switch {
	case out.PassBGL != nil:
		op = locks.PassBGL{From: *out.PassBGL}
	case out.Unlock != nil:
		op = locks.Apply{Call: lock.UnlockConfig(*out.Unlock)}
	default:
		r.answer(ctx, out, config)
		return
	}
	// The change is durable: the next client that gets the lock reads it. This client is answered after that, so that it finds its lock
	// freed.
	c.lockCalls.ask(ctx, op, func(ctx actor.Context, a *locks.OperateResult) {
		if f := a.Failure; f != nil {
			e := errorOf(f)
			if out.Changed {
				e.Text = "The configuration was changed, and its lock is still held: " + e.Text
			}
			out = calls.Outcome{Err: e}
		}
		r.answer(ctx, out, config)
	})
}

func errorOf(f *messages.Failure) *calls.Error { return &calls.Error{Class: f.Class, Text: f.Text} }

// lockCalls are the open calls to the lock manager. LocksStarted repeats them.
type lockCalls struct {
	kit.Asker[*locks.OperateResult]
}

func (l *lockCalls) ask(ctx actor.Context, op locks.Operation, answered func(actor.Context, *locks.OperateResult)) {
	l.Ask(ctx, func(n uint64) any { return &locks.Operate{Request: n, Operation: op} }, answered)
}
