package luxi

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/queuecopy"
	corecopy "lockstep/core/queuecopy"
)

// succeedCopied answers with a result that reports changes of units of the queue. Unless the operator wants no such wait, the answer
// waits until master candidates have them. The changes are durable here in any case.
func (c *call) succeedCopied(ctx actor.Context, result any, units ...corecopy.Unit) {
	if c.config.QueueCopy == nil || !c.config.AwaitCopies || len(units) == 0 {
		c.succeed(ctx, result)
		return
	}
	q := conn.Question{To: c.config.QueueCopy, LostBy: conn.CopierRestart,
		Message: func(number uint64) any { return &queuecopy.Await{Request: number, Units: units} }}
	ask(c, ctx, q, func(ctx actor.Context, _ *queuecopy.AwaitResult) { c.succeed(ctx, result) })
}

// jobUnits are the units of a submission. No job is sent before a serial that is not below it.
func jobUnits(ids []int64) (units []corecopy.Unit) {
	for _, id := range ids {
		units = append(units, corecopy.Unit(id))
	}
	return units
}

// askCopies asks which candidates are behind with the queue.
func (c *call) askCopies(ctx actor.Context, then func(actor.Context, []corecopy.NodeState)) {
	if c.config.QueueCopy == nil {
		then(ctx, nil)
		return
	}
	q := conn.Question{To: c.config.QueueCopy, LostBy: conn.CopierRestart,
		Message: func(number uint64) any { return &queuecopy.GetNodes{Request: number} }}
	ask(c, ctx, q, func(ctx actor.Context, a *queuecopy.GetNodesResult) { then(ctx, a.Nodes) })
}
