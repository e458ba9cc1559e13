package call

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/features"
	"lockstep/actors/locks"
	"lockstep/actors/queuecopy"
	"lockstep/core/answer"
	corecopy "lockstep/core/queuecopy"
	"lockstep/messages"
)

// The questions of calls to other actors that several packages ask, one function each. then gets the answer; a failure becomes the
// answer to the client. Each question may be sent twice.

func (c *Call) ToQueue(message func(number uint64) any) conn.Question {
	return conn.Question{To: c.Config.Queue, Message: message, LostBy: conn.QueueRestart}
}

// ToCore is a question to one of the actors that restart together: locks, scheduler, filters, configuration.
func ToCore(to *actor.PID, message func(number uint64) any) conn.Question {
	return conn.Question{To: to, Message: message, LostBy: conn.CoreRestart}
}

// ToNodes is a question to the replicator. It is sent again after a restart of the queue; a question that a restart of
// the replicator loses runs into Timeout.
func (c *Call) ToNodes(message func(number uint64) any) conn.Question {
	return conn.Question{To: c.Config.Replicator, Message: message, LostBy: conn.QueueRestart}
}

// AskRows asks the queue for the jobs with these ids. An unknown one has a row that says so.
func (c *Call) AskRows(ctx actor.Context, ids []int64, then func(actor.Context, []*messages.JobRow)) {
	Ask(c, ctx, c.ToQueue(func(number uint64) any { return &messages.ListJobs{Request: number, Ids: ids} }),
		func(ctx actor.Context, a *messages.ListJobsResult) { then(ctx, a.Rows) })
}

// AskStatus asks for the state of the queue as a whole.
func (c *Call) AskStatus(ctx actor.Context, then func(actor.Context, *messages.GetQueueStatusResult)) {
	Ask(c, ctx, c.ToQueue(func(number uint64) any { return &messages.GetQueueStatus{Request: number} }), then)
}

// AskLocks makes a call to the lock manager, whose value is a V.
func AskLocks[V any](c *Call, ctx actor.Context, op locks.Operation, then func(actor.Context, V)) {
	AskFallible(c, ctx, ToCore(c.Config.Locks, func(number uint64) any { return &locks.Operate{Request: number, Operation: op} }),
		func(ctx actor.Context, a *locks.OperateResult) { then(ctx, a.Value.(V)) })
}

// AskNodes asks for the nodes of the cluster and their states. nil means that the daemon belongs to no cluster.
func (c *Call) AskNodes(ctx actor.Context, then func(actor.Context, *answer.Nodes)) {
	if c.Config.Replicator == nil {
		then(ctx, nil)
		return
	}
	Ask(c, ctx, c.ToNodes(func(number uint64) any { return &messages.GetNodes{Request: number, WithStates: true} }),
		func(ctx actor.Context, a *messages.GetNodesResult) {
			nodes := NodesOf(a)
			then(ctx, &nodes)
		})
}

// SucceedCopied answers with a result that reports changes of units of the queue. Unless the operator wants no such wait, the answer
// waits until master candidates have them. The changes are durable here in any case.
func (c *Call) SucceedCopied(ctx actor.Context, result any, units ...corecopy.Unit) {
	if c.Config.QueueCopy == nil || !c.Config.AwaitCopies || len(units) == 0 {
		c.Succeed(ctx, result)
		return
	}
	q := conn.Question{To: c.Config.QueueCopy, LostBy: conn.CopierRestart,
		Message: func(number uint64) any { return &queuecopy.Await{Request: number, Units: units} }}
	Ask(c, ctx, q, func(ctx actor.Context, _ *queuecopy.AwaitResult) { c.Succeed(ctx, result) })
}

// AskKnown calls then if all members of the cluster know a feature (replication.Features). Otherwise the call fails with the name of one
// that does not.
func (c *Call) AskKnown(ctx actor.Context, feature string, then func(actor.Context)) {
	if c.Config.Features == nil {
		then(ctx)
		return
	}
	q := ToCore(c.Config.Features, func(number uint64) any { return &features.Ask{Request: number, Feature: feature} })
	Ask(c, ctx, q, func(ctx actor.Context, a *features.AskResult) {
		if a.Lacking != "" {
			c.Fail(ctx, messages.PrereqFailure(messages.WrongState, fmt.Sprintf(
				"Node %s has an older version, which does not know %s, or has not told its version yet: upgrade it, or remove it from the cluster",
				a.Lacking, feature)))
			return
		}
		then(ctx)
	})
}
