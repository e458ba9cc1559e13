package jobs

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/messages"
)

// question is that of a process whether its next opcode may begin.
type question struct {
	*messages.BeginOp
	asker *actor.PID
}

// beginOp passes the question whether an opcode may begin to the scheduler, when
// all know that the former opcode has ended: the queue, and in a cluster the other
// nodes, so that no failover can undo what the next opcode builds on. The process
// has reported it; a report that was lost is made good by a look at the file.
func (a *jobActor) beginOp(ctx actor.Context, m *messages.BeginOp) {
	if m.Livelock != a.job.Livelock || !a.start.MayAct() {
		ctx.Respond(&messages.OpBegun{Request: m.Request, Failure: notRunning(a.id)})
		return
	}
	a.question = &question{m, ctx.Sender()}
	a.lookBeforeBegin(ctx)
}

func (a *jobActor) lookBeforeBegin(ctx actor.Context) {
	asked := a.question
	if a.hasCome(int(asked.Op)) {
		a.knownHere(ctx)
		return
	}
	a.look(ctx, func(ctx actor.Context, found looked, f *messages.Failure) {
		if found == hasEnded { // it was canceled after it had asked, and no opcode begins any more
			f = notRunning(a.id)
		}
		switch {
		case a.question != asked: // it was asked again
		case found == superseded:
			a.lookBeforeBegin(ctx)
		case f != nil:
			a.question = nil
			ctx.Send(asked.asker, &messages.OpBegun{Request: asked.Request, Failure: f})
		default:
			a.knownHere(ctx)
		}
	})
}

// hasCome: the process was heard to say that it has come to an opcode.
func (a *jobActor) hasCome(op int) bool {
	j, err := job.Decode(a.report)
	return err == nil && op < len(j.Ops) && j.Ops[op].Status != job.Queued
}

// knownHere: this node knows how far the process has come.
func (a *jobActor) knownHere(ctx actor.Context) {
	if a.config.Replicator == nil || a.report == nil {
		a.passQuestion(ctx)
		return
	}
	a.observe(ctx, a.passQuestion)
}

func (a *jobActor) passQuestion(ctx actor.Context) {
	if q := a.question; q != nil {
		a.question = nil
		ctx.RequestWithCustomSender(a.config.Scheduler, q.BeginOp, q.asker)
	}
}

// observeEnd has the other nodes of a cluster told of an end that the process has
// written itself, before anybody else is: what a client was told must not be undone
// by a failover. Alone, it goes on at once.
func (a *jobActor) observeEnd(ctx actor.Context, encoded []byte, then func(actor.Context)) {
	if a.config.Replicator == nil {
		then(ctx)
		return
	}
	a.report = encoded
	a.observe(ctx, then)
}

// observe goes on when the other nodes have what the process has written.
func (a *jobActor) observe(ctx actor.Context, then func(actor.Context)) {
	a.observing = then
	a.asked++
	a.askToObserve(ctx)
}

func (a *jobActor) askToObserve(ctx actor.Context) {
	ctx.Request(a.config.Replicator, &messages.ObserveJob{Request: a.asked, Id: a.id, Encoded: a.report})
}

// observeAgain: the replicator has started anew, and has forgotten who waits.
func (a *jobActor) observeAgain(ctx actor.Context) {
	if _, started := ctx.Message().(*messages.StoreStarted); started && a.observing != nil {
		a.askToObserve(ctx)
	}
}

func (a *jobActor) wasObserved(ctx actor.Context, m *messages.JobObserved) {
	if then := a.observing; then != nil && m.Request == a.asked {
		a.observing = nil
		then(ctx)
	}
}
