package jobs

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// processReported passes on what the process says its file holds now.
func (a *jobActor) processReported(ctx actor.Context, m *messages.ProcessReported) {
	if m.Livelock != a.job.Livelock || !a.handshake.MayAct() {
		a.reportMissed = a.start == nil // else it is not the process of this attempt
		return
	}
	if len(m.Encoded) > 0 {
		a.progress(ctx, m.Encoded)
		return
	}
	a.readReport(ctx)
}

// retryRead is due some time after the file could not be read; look is the number of
// that attempt.
type retryRead struct{ version uint64 }

// readReport reads what the process did not put into its report, until that has
// succeeded or something newer is heard.
func (a *jobActor) readReport(ctx actor.Context) {
	a.readJobFile(ctx, func(ctx actor.Context, result readResult, f *messages.Failure) {
		if f != nil && result != readSuperseded {
			kit.SendAfter(a.config.Env.Clock(), ctx.ActorSystem(), time.Second, ctx.Self(), &retryRead{a.version})
		}
	})
}

func (a *jobActor) retryRead(ctx actor.Context, m *retryRead) {
	if m.version == a.version && a.handshake.MayAct() {
		a.readReport(ctx)
	}
}

// readResult is what has come of a look at the job's file.
type readResult int

const (
	readForwarded  readResult = iota // the queue knows what the file holds, if it could be read
	readSuperseded                   // something newer was heard meanwhile, or is being looked at
	readFinal                        // the process has written the job's end, and is about to exit
)

// readJobFile reads what the job's file holds, and passes that on.
func (a *jobActor) readJobFile(ctx actor.Context, done func(ctx actor.Context, result readResult, f *messages.Failure)) {
	a.version++
	version := a.version
	a.store.Read(ctx, "report-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if !a.handshake.MayAct() {
			return // its process is gone meanwhile, and its end is being settled
		}
		result := readForwarded
		switch j, err := job.Decode(m.Content); {
		case version != a.version:
			result = readSuperseded
		case err != nil:
		case j.Status().Final(): // an end that is not told by the process's exit may not be durable yet
			result = readFinal
		default:
			a.progress(ctx, m.Content)
		}
		done(ctx, result, m.Failure)
	})
}

// progress passes on what the job's file holds.
func (a *jobActor) progress(ctx actor.Context, encoded []byte) {
	a.version++
	a.report = encoded
	ctx.Send(a.config.Queue, &messages.JobProgressed{Id: a.id, Encoded: encoded})
	if a.config.Replicator != nil {
		ctx.Send(a.config.Replicator, &messages.ReplicateJobFile{Id: a.id, Encoded: encoded})
	}
	a.answerIfTooLate(ctx)
}
