package jobs

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// jobActor answers for one job that is active.
type jobActor struct {
	config          Config
	id              int64
	attempt         uint64             // of this attempt
	initial         []byte             // the job as it was handed over
	start           *messages.StartJob // nil: adopt
	handshakeError  string             // how the handshake broke, as the port has told it
	processRecorded bool               // that the file names the process was asked of the store
	gaveUpText      string             // why a start that has failed is not tried again
	store           *store.Client
	handshake       handshake.Attempt
	job             *job.Job // as last known; the file is the truth
	exitText        string   // the process ended
	// unsynced: the job's end was written, but may not be durable.
	unsynced bool
	report   []byte // the last thing that the process said of its file
	// afterReplication is what follows when the other nodes have the end that the process
	// has written; nil: that is not waited for.
	afterReplication func(actor.Context)
	replication      uint64             // number of the last question for that
	permission       *permissionRequest // of the process, until the scheduler has it; nil: none
	version          uint64             // counts what was heard of the file; an older look at it is dropped
	reportMissed     bool               // a report came before the job was adopted
	orders           clientOrders
	tries            int // of what the disk has refused so far
	retry            func(actor.Context)
}

// retryDisk is due some time after the disk has refused something.
type retryDisk struct{}

func newJobActor(c Config, id int64, attempt uint64, initial []byte, start *messages.StartJob) *jobActor {
	// The number is unique in the daemon's life, so is its lower half among
	// the attempts that can have requests open at the same time.
	return &jobActor{config: c, id: id, attempt: attempt, initial: initial, start: start, store: store.NewClient(c.Store, uint32(attempt))}
}

func (a *jobActor) Receive(ctx actor.Context) {
	if a.store.Handle(ctx) {
		a.repeatReplication(ctx)
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.started(ctx)
	case *actor.Stopping:
		a.abandonStart()
	case *messages.ProcessNamed:
		a.processNamed(ctx, m)
	case *messages.ProcessConfirmed:
		a.processConfirmed(ctx, m)
	case *messages.HandshakeFailed:
		a.processFailed(ctx, m)
	case *messages.ProcessGone:
		a.processGone(ctx, m)
	case *messages.ProcessReported:
		a.processReported(ctx, m)
	case *messages.OrderJob:
		a.ordered(ctx, m)
	case *cancelTimeout:
		a.cancelTimeout(ctx, m)
	case *messages.BeginOp:
		a.beginOp(ctx, m)
	case *messages.ReplicateJobFileResult:
		a.replicated(ctx, m)
	case *retryDisk:
		a.retry(ctx)
	case *retryRead:
		a.retryRead(ctx, m)
	case *failJob:
		a.gaveUpText = m.text
		a.finalize(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

func (a *jobActor) started(ctx actor.Context) {
	a.store.Connect(ctx)
	j, err := job.Decode(a.initial)
	if err != nil {
		panic(fmt.Errorf("the queue handed out something that is not a job: %w", err))
	}
	a.job = j
	if a.start == nil {
		a.adopt(ctx)
		return
	}
	a.config.Processes.Start(a.attempt, a.id, ctx.Self())
}

// abandonStart calls off a start that is not confirmed: nobody is left who could give
// the process its permission, and it would wait for that.
func (a *jobActor) abandonStart() {
	if a.start != nil && a.handshake.Phase() <= handshake.Confirming {
		a.config.Processes.Abandon(a.attempt)
	}
}

// processNamed makes the livelock's name durable before the process may act: whoever
// reads the file from then on can tell whether the job is alive.
func (a *jobActor) processNamed(ctx actor.Context, m *messages.ProcessNamed) {
	if m.Attempt != a.attempt || a.handshake.LivelockNamed() != handshake.Save {
		return
	}
	j := a.job.Clone()
	j.Livelock, j.ProcessID = m.Livelock, int(m.Pid)
	a.processRecorded = true
	a.write(ctx, "start-job", job.Encode(j), func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			a.abandon(a.handshake.Failed(f.Text))
			return
		}
		a.job = j
		if !a.config.mayPermit() {
			a.abandon(a.handshake.Failed("this node is not the master any more"))
			return
		}
		if a.handshake.NameSaved() == handshake.Confirm {
			a.config.Processes.Confirm(a.attempt, a.start.Launch)
		}
	})
}

func (a *jobActor) processConfirmed(ctx actor.Context, m *messages.ProcessConfirmed) {
	if m.Attempt == a.attempt {
		a.handshake.Confirmed()
		ctx.Send(ctx.Parent(), &handshakeEnded{id: a.id, started: true})
		a.sendDeferredOrders()
	}
}

func (a *jobActor) processFailed(_ actor.Context, m *messages.HandshakeFailed) {
	if m.Attempt == a.attempt {
		a.handshakeError = m.Text
		a.abandon(a.handshake.Failed(m.Text))
	}
}

func (a *jobActor) abandon(action handshake.Action) {
	if action == handshake.Abandon {
		a.config.Processes.Abandon(a.attempt)
	}
}

func (a *jobActor) processGone(ctx actor.Context, m *messages.ProcessGone) {
	if m.Attempt != a.attempt {
		return
	}
	if m.NeverActed {
		a.handshake.NeverActed(a.handshakeError)
	}
	if a.handshake.Gone(m.Text) != handshake.Finalize {
		return
	}
	a.permission, a.afterReplication = nil, nil
	a.exitText = m.Text
	if reason := a.handshake.StartFailure(); reason != "" && !a.orders.startCanceled {
		ctx.Send(ctx.Parent(), &startFailed{a.id, reason})
		a.undoStart(ctx)
		return
	}
	ctx.Send(ctx.Parent(), &handshakeEnded{id: a.id})
	a.finalize(ctx)
}

// undoStart returns a job on which no process has acted to the queue. Its file must
// not name the process any more then: a later daemon would take the job for one
// that has died. In a cluster the name stays once it is in the log, and the job
// fails: a log that is repeated could not tell the file of the next start from that
// of this one (replication.Supersedes).
func (a *jobActor) undoStart(ctx actor.Context) {
	if !a.processRecorded {
		a.returnToQueue(ctx)
		return
	}
	a.store.Read(ctx, "return-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			a.retryLater(ctx, m.Failure, a.undoStart)
			return
		}
		switch j, err := job.Decode(m.Content); {
		case m.Missing || err != nil || j.Status() != job.Queued:
			a.finalize(ctx) // somebody meddled with the file
		case !paths.IsJobLivelock(j.Livelock):
			a.returnToQueue(ctx)
		case a.config.Replicator != nil:
			a.finalize(ctx)
		default:
			a.write(ctx, "return-job", a.initial, func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					a.retryLater(ctx, f, a.undoStart)
					return
				}
				a.returnToQueue(ctx)
			})
		}
	})
}

// returnToQueue: a client that wants the job canceled has its order, for nothing of
// the job will act.
func (a *jobActor) returnToQueue(ctx actor.Context) {
	if len(a.orders.cancels) > 0 {
		a.orders.startCanceled = true
		a.finalize(ctx)
		return
	}
	ctx.Send(ctx.Parent(), &startUndone{a.id, a.handshake.StartFailure(), a.orders.priority()})
}

// finalize makes sure that a job whose process is gone has a final file: read it,
// and write the end if the process did not (design.md 4, "Death").
func (a *jobActor) finalize(ctx actor.Context) {
	a.store.Read(ctx, "end-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			a.retryLater(ctx, m.Failure, a.finalize)
			return
		}
		encoded := m.Content
		j, err := job.Decode(encoded)
		if m.Missing || err != nil || j.ID != job.ID(a.id) {
			// Somebody meddled with the file. What is known is written again;
			// an unreadable one is kept for people to look at.
			a.repair(ctx, m.Missing)
			return
		}
		switch {
		case a.end(j):
			a.writeEnd(ctx, j, job.Encode(j))
		case a.unsynced || a.exitText != handshake.CleanExit:
			a.writeEnd(ctx, j, encoded) // it says so, but power loss might take that away
		default:
			a.replicateEnd(ctx, encoded, func(ctx actor.Context) { a.ended(ctx, j, encoded) })
		}
	})
}

// end makes a job final that its process did not, and reports whether it had to.
func (a *jobActor) end(j *job.Job) bool {
	if a.orders.startCanceled && !j.Status().Final() {
		j.CancelUnstarted(nil, a.now())
		return true
	}
	return handshake.FinalizeJob(j, a.handshake.StartFailure()+a.gaveUpText, a.exitText, a.now())
}

func (a *jobActor) ended(ctx actor.Context, j *job.Job, encoded []byte) {
	ctx.Send(ctx.Parent(), &jobReleased{a.id, &messages.JobEnded{Id: a.id, Encoded: encoded}, a.cancelAnswersAtEnd(j.Status())})
}

func (a *jobActor) writeEnd(ctx actor.Context, j *job.Job, encoded []byte) {
	a.write(ctx, "end-job", encoded, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			a.unsynced = true
			a.retryLater(ctx, f, a.finalize)
			return
		}
		a.ended(ctx, j, encoded)
	})
}

// retryLater tries again later, without end: a job has not ended before its end is
// on the disk, and one that cannot be read may be running.
func (a *jobActor) retryLater(ctx actor.Context, f *messages.Failure, retry func(actor.Context)) {
	delay := kit.Backoff(a.tries)
	a.tries++
	a.retry = retry
	a.log().WithFields(logrus.Fields{"err": f.Text, "again": delay}).Error("a job's file cannot be read or written")
	kit.SendAfter(a.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryDisk{})
}

func (a *jobActor) repair(ctx actor.Context, missing bool) {
	finish := func(ctx actor.Context) {
		a.log().Error("the file of a running job is missing or not a job; its end is written from what the daemon knows")
		j := a.job.Clone()
		if !a.end(j) {
			a.ended(ctx, j, job.Encode(j))
			return
		}
		a.writeEnd(ctx, j, job.Encode(j))
	}
	if missing {
		a.unlessArchived(ctx, finish)
		return
	}
	a.store.Quarantine(ctx, paths.JobPath(a.id), func(ctx actor.Context, _ *messages.QuarantineFileResult) { finish(ctx) })
}

// unlessArchived: the order to adopt a job can cross with its end, and then the job
// may have been archived since.
func (a *jobActor) unlessArchived(ctx actor.Context, finish func(actor.Context)) {
	a.store.Read(ctx, "end-job", paths.ArchivePath(a.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			a.retryLater(ctx, m.Failure, a.finalize)
			return
		}
		if j, err := job.Decode(m.Content); !m.Missing && err == nil && j.Status().Final() {
			a.ended(ctx, j, m.Content)
			return
		}
		finish(ctx)
	})
}

func (a *jobActor) write(ctx actor.Context, op string, content []byte, done func(actor.Context, *messages.Failure)) {
	file := &messages.FileWrite{Op: op, Path: paths.JobPath(a.id), Content: content}
	a.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, m *messages.ChangeFilesResult) {
			if len(m.Failures) > 0 {
				done(ctx, m.Failures[0].Failure)
				return
			}
			done(ctx, nil)
		})
}

func (a *jobActor) now() job.Timestamp { return job.TimestampOf(a.config.Env.Clock().Now()) }

func (a *jobActor) log() *logrus.Entry { return a.config.Env.Log().WithField("job", a.id) }
