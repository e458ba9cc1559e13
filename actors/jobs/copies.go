package jobs

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/queuecopy"
	"lockstep/actors/store"
	"lockstep/core/paths"
	"lockstep/messages"
)

// copyByProcess tells the copier that a process of Ganeti sends the job's file from now on. It comes before the permission of the
// process.
func (a *jobActor) copyByProcess(ctx actor.Context) {
	if a.config.QueueCopy != nil && a.program == messages.JobProgram_GANETI_JOB {
		ctx.Send(a.config.QueueCopy, &queuecopy.ProcessBegan{ID: a.id})
	}
}

// copyReport has the file copied that a process of lockstep has written.
func (a *jobActor) copyReport(ctx actor.Context) {
	if a.config.QueueCopy != nil && a.program != messages.JobProgram_GANETI_JOB {
		ctx.Send(a.config.QueueCopy, &store.Changed{Paths: []string{paths.JobPath(a.id)}})
	}
}

// copyEnd tells the copier that the job's file is final, and that from now on only this daemon sends it.
func (a *jobActor) copyEnd(ctx actor.Context) {
	a.copyReport(ctx)
	if a.config.QueueCopy != nil && a.program == messages.JobProgram_GANETI_JOB {
		ctx.Send(a.config.QueueCopy, &queuecopy.ProcessEnded{ID: a.id})
	}
}
