package jobs

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/messages"
)

// permissionRequest is the request of a process to begin its next opcode.
type permissionRequest struct {
	*messages.BeginOp
	requester *actor.PID
}

// beginOp passes BeginOp to the scheduler once the end of the former opcode is known to the
// queue and, in a cluster, to a majority of nodes. So no failover undoes a result on which
// the next opcode builds. If the process's report was lost, the file is read.
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
		if result == readFinal { // the job was canceled after the request; no opcode begins
			f = notRunning(a.id)
		}
		switch {
		case a.permission != permission: // a later request replaced this one
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

// hasReached reports whether the last known content of the file has come to opcode op.
func (a *jobActor) hasReached(op int) bool {
	j, err := job.Decode(a.report)
	return err == nil && op < len(j.Ops) && j.Ops[op].Status != job.Queued
}

// replicateBeforeBegin continues beginOp once this node knows the end of the former opcode.
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
		a.askBeginWait(ctx)
	}
}

// replicateEnd waits until a majority has the end that the process wrote, and then calls
// then, so that no failover undoes an end that a client knows. Without a cluster it calls
// then at once.
func (a *jobActor) replicateEnd(ctx actor.Context, encoded []byte, then func(actor.Context)) {
	if a.config.Replicator == nil {
		then(ctx)
		return
	}
	a.report = encoded
	a.replicate(ctx, then)
}

// replicate calls then when a majority has what the process wrote.
func (a *jobActor) replicate(ctx actor.Context, then func(actor.Context)) {
	a.afterReplication = then
	a.replication++
	a.requestReplication(ctx)
}

func (a *jobActor) requestReplication(ctx actor.Context) {
	ctx.Request(a.config.Replicator, &messages.ReplicateJobFile{Request: a.replication, Id: a.id, Encoded: a.report})
}

// repeatReplication sends ReplicateJobFile again to a restarted replicator, which has lost
// its open requests.
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
