package jobs

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/messages"
)

// permissionRequest is that of a process whether its next opcode may begin.
type permissionRequest struct {
	*messages.BeginOp
	requester *actor.PID
}

// beginOp passes the question whether an opcode may begin to the scheduler, when
// all know that the former opcode has ended: the queue, and in a cluster the other
// nodes, so that no failover can undo what the next opcode builds on. The process
// has reported it; a report that was lost is made good by a look at the file.
func (a *jobActor) beginOp(ctx actor.Context, m *messages.BeginOp) {
	if m.Livelock != a.job.Livelock || !a.handshake.MayAct() {
		ctx.Respond(&messages.BeginOpResult{Request: m.Request, Failure: notRunning(a.id)})
		return
	}
	a.permission = &permissionRequest{m, ctx.Sender()}
	a.confirmProgress(ctx)
}

func (a *jobActor) confirmProgress(ctx actor.Context) {
	permission := a.permission
	if a.hasReached(int(permission.Op)) {
		a.replicateBeforeBegin(ctx)
		return
	}
	a.readJobFile(ctx, func(ctx actor.Context, result readResult, f *messages.Failure) {
		if result == readFinal { // it was canceled after it had asked, and no opcode begins any more
			f = notRunning(a.id)
		}
		switch {
		case a.permission != permission: // it was asked again
		case result == readSuperseded:
			a.confirmProgress(ctx)
		case f != nil:
			a.permission = nil
			ctx.Send(permission.requester, &messages.BeginOpResult{Request: permission.Request, Failure: f})
		default:
			a.replicateBeforeBegin(ctx)
		}
	})
}

// hasReached: the process was heard to say that it has come to an opcode.
func (a *jobActor) hasReached(op int) bool {
	j, err := job.Decode(a.report)
	return err == nil && op < len(j.Ops) && j.Ops[op].Status != job.Queued
}

// replicateBeforeBegin: this node knows how far the process has come.
func (a *jobActor) replicateBeforeBegin(ctx actor.Context) {
	if a.config.Replicator == nil || a.report == nil {
		a.forwardPermission(ctx)
		return
	}
	a.replicate(ctx, a.forwardPermission)
}

func (a *jobActor) forwardPermission(ctx actor.Context) {
	if q := a.permission; q != nil {
		a.permission = nil
		ctx.RequestWithCustomSender(a.config.Scheduler, q.BeginOp, q.requester)
	}
}

// replicateEnd has the other nodes of a cluster told of an end that the process has
// written itself, before anybody else is: what a client was told must not be undone
// by a failover. Alone, it goes on at once.
func (a *jobActor) replicateEnd(ctx actor.Context, encoded []byte, then func(actor.Context)) {
	if a.config.Replicator == nil {
		then(ctx)
		return
	}
	a.report = encoded
	a.replicate(ctx, then)
}

// replicate goes on when the other nodes have what the process has written.
func (a *jobActor) replicate(ctx actor.Context, then func(actor.Context)) {
	a.afterReplication = then
	a.replication++
	a.requestReplication(ctx)
}

func (a *jobActor) requestReplication(ctx actor.Context) {
	ctx.Request(a.config.Replicator, &messages.ReplicateJobFile{Request: a.replication, Id: a.id, Encoded: a.report})
}

// repeatReplication: the replicator has started anew, and has forgotten who waits.
func (a *jobActor) repeatReplication(ctx actor.Context) {
	if _, started := ctx.Message().(*messages.StoreStarted); started && a.afterReplication != nil {
		a.requestReplication(ctx)
	}
}

func (a *jobActor) replicated(ctx actor.Context, m *messages.ReplicateJobFileResult) {
	if then := a.afterReplication; then != nil && m.Request == a.replication {
		a.afterReplication = nil
		then(ctx)
	}
}
