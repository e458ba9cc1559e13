package jobs

import (
	"path"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/progress"
	"lockstep/messages"
)

// processReported passes the reported content of the file, and the progress of its command, on to the queue. Without content the file is
// read if it has changed. A report of a process that is not this attempt's is dropped; in an adoption the file is then read again.
func (a *jobActor) processReported(ctx actor.Context, m *messages.ProcessReported) {
	if m.Livelock != a.job.Livelock || !a.handshake.MayAct() {
		a.reportMissed = a.start == nil // else the report is not of this attempt's process
		return
	}
	a.reportFailing(ctx, m.WriteError, time.UnixMicro(m.FailingSinceUs), true)
	if m.ReaderSinceUs != a.readerSince {
		a.readerSince = m.ReaderSinceUs
		ctx.Send(ctx.Parent(), &readerWait{a.id, a.readerSince})
	}
	news := m.Progress != nil || a.said.latest != nil
	a.said.latest = m.Progress
	if len(m.Encoded) > 0 {
		a.progress(ctx, m.Encoded)
		return
	}
	if news {
		a.tellProgress(ctx)
	}
	if !m.Unchanged {
		a.readReport(ctx)
	}
}

// commandSaid is what the command of a job says about its progress, as its process has reported it.
type commandSaid struct {
	latest *messages.CommandProgress // nil: nothing
	from   time.Time                 // the queue hears of it without a report of the file at most once in progress.Pause
	due    bool                      // a timer is set for that
}

// tellDue is the timer for a progress that came too early.
type tellDue struct{}

// tellProgress passes the progress on to the queue, the latest one twice a second at most: a report may come from any client. What was
// passed on before is passed on again, for another incarnation of the queue.
func (a *jobActor) tellProgress(ctx actor.Context) {
	clock := a.config.Env.Clock()
	now := clock.Now()
	switch {
	case a.said.due:
	case now.Before(a.said.from):
		a.said.due = true
		kit.SendAfter(clock, ctx.ActorSystem(), a.said.from.Sub(now), ctx.Self(), &tellDue{})
	default:
		a.said.from = now.Add(progress.Pause)
		ctx.Send(a.config.Queue, &messages.JobProgressed{Id: a.id, Progress: a.said.latest})
	}
}

// tellDueProgress is tellProgress when it is due. The progress of a process that has gone is gone, too.
func (a *jobActor) tellDueProgress(ctx actor.Context) {
	a.said.due = false
	if a.handshake.MayAct() {
		a.tellProgress(ctx)
	}
}

// retryRead is a timer after a failed read of the file. version is that of the read.
type retryRead struct{ version uint64 }

// readReport reads the file if the report was too long to contain it. It retries until the
// read succeeds or a newer report comes.
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

// readResult is the result of readJobFile.
type readResult int

const (
	readForwarded  readResult = iota // the queue has the content, if it could be read
	readSuperseded                   // a newer report came, or a newer read is under way
	readFinal                        // the process has written the end, of the job or of a try, and will exit
)

// readJobFile reads the job's file and passes the content on to the queue, unless it is final or a later content has been passed on. done
// hears which; it is not called if the process has gone.
func (a *jobActor) readJobFile(ctx actor.Context, done func(ctx actor.Context, result readResult, f *messages.Failure)) {
	a.version++
	version := a.version
	a.store.Read(ctx, "report-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if !a.handshake.MayAct() {
			return // the process is gone; finalize is under way
		}
		result := readForwarded
		switch j, err := job.Decode(m.Content); {
		case version != a.version:
			result = readSuperseded
		case err != nil:
		case j.Status().Final() || j.TryEnded(): // the end may not be durable before the process exits
			result = readFinal
		default:
			a.progress(ctx, m.Content)
		}
		done(ctx, result, m.Failure)
	})
}

// progress sends the content of the job's file to the queue, and in a cluster to the replicator. Cancels that come too late are answered,
// and an open CallOff may be settled.
func (a *jobActor) progress(ctx actor.Context, encoded []byte) {
	a.version++
	a.report = encoded
	a.copyReport(ctx)
	ctx.Send(a.config.Queue, &messages.JobProgressed{Id: a.id, Encoded: encoded, Progress: a.said.latest})
	if a.config.Replicator != nil {
		ctx.Send(a.config.Replicator, &messages.ReplicateJobFile{Id: a.id, Encoded: encoded})
	}
	a.answerIfTooLate(ctx)
	a.settleIfExecuting(ctx)
}

// identify answers whether a client is a process of the job, by the name of the lock file that such a process has in its environment.
func (a *jobActor) identify(ctx actor.Context, m *messages.IdentifyJob) {
	answer := &messages.IdentifyJobResult{Request: m.Request}
	if a.handshake.MayAct() && path.Base(a.job.Livelock) == m.Name {
		answer.Id = a.id
	}
	ctx.Respond(answer)
}
