package jobs

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// jobActor answers for one job that is in the hands of a process.
type jobActor struct {
	config   Config
	id       int64
	number   uint64             // of this attempt
	known    []byte             // the job as it was handed over
	order    *messages.StartJob // nil: adopt
	broken   string             // how the handshake broke, as the port has told it
	recorded bool               // that the file names the process was asked of the store
	hopeless string             // why a start that has failed is not tried again
	store    *store.Client
	start    handshake.Attempt
	job      *job.Job // as last known; the file is the truth
	how      string   // the process ended
	// unsynced: the job's end was written, but may not be durable.
	unsynced bool
	report   []byte // the last thing that the process said of its file
	// observing is what follows when the other nodes have the end that the process
	// has written; nil: that is not waited for.
	observing func(actor.Context)
	asked     uint64    // number of the last question for that
	question  *question // of the process, until the scheduler has it; nil: none
	looks     uint64    // counts what was heard of the file; an older look at it is dropped
	unheard   bool      // a report came before the job was adopted
	wishes    wishes
	tries     int // of what the disk has refused so far
	retry     func(actor.Context)
}

// tryAgain is due some time after the disk has refused something.
type tryAgain struct{}

func newJobActor(c Config, id int64, number uint64, known []byte, order *messages.StartJob) *jobActor {
	// The number is unique in the daemon's life, so is its lower half among
	// the attempts that can have requests open at the same time.
	return &jobActor{config: c, id: id, number: number, known: known, order: order, store: store.NewClient(c.Store, uint32(number))}
}

func (a *jobActor) Receive(ctx actor.Context) {
	if a.store.Handle(ctx) {
		a.observeAgain(ctx)
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.started(ctx)
	case *actor.Stopping:
		a.leave()
	case *messages.ProcessNamed:
		a.named(ctx, m)
	case *messages.ProcessConfirmed:
		a.confirmed(ctx, m)
	case *messages.ProcessFailed:
		a.failed(ctx, m)
	case *messages.ProcessGone:
		a.gone(ctx, m)
	case *messages.ProcessReport:
		a.reported(ctx, m)
	case *messages.CancelJob:
		a.cancel(ctx, m)
	case *messages.ChangePriority:
		a.changePriority(ctx, m)
	case *cancelOverdue:
		a.cancelOverdue(ctx, m)
	case *messages.BeginOp:
		a.beginOp(ctx, m)
	case *messages.JobObserved:
		a.wasObserved(ctx, m)
	case *tryAgain:
		a.retry(ctx)
	case *lookAgain:
		a.lookAgain(ctx, m)
	case *giveUpStart:
		a.hopeless = m.text
		a.settle(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

func (a *jobActor) started(ctx actor.Context) {
	a.store.Hello(ctx)
	j, err := job.Decode(a.known)
	if err != nil {
		panic(fmt.Errorf("the queue handed out something that is not a job: %w", err))
	}
	a.job = j
	if a.order == nil {
		a.adopt(ctx)
		return
	}
	a.config.Processes.Start(a.number, a.id, ctx.Self())
}

// leave calls off a start that is not confirmed: nobody is left who could give
// the process its permission, and it would wait for that.
func (a *jobActor) leave() {
	if a.order != nil && a.start.Phase() <= handshake.Confirming {
		a.config.Processes.Abandon(a.number)
	}
}

// named makes the livelock's name durable before the process may act: whoever
// reads the file from then on can tell whether the job is alive.
func (a *jobActor) named(ctx actor.Context, m *messages.ProcessNamed) {
	if m.Start != a.number || a.start.LivelockNamed() != handshake.Save {
		return
	}
	j := a.job.Clone()
	j.Livelock, j.ProcessID = m.Livelock, int(m.Pid)
	a.recorded = true
	a.write(ctx, "start-job", job.Encode(j), func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			a.abandon(a.start.Failed(f.Text))
			return
		}
		a.job = j
		if !a.config.mayPermit() {
			a.abandon(a.start.Failed("this node is not the master any more"))
			return
		}
		if a.start.NameSaved() == handshake.Confirm {
			a.config.Processes.Confirm(a.number, a.order.Hand)
		}
	})
}

func (a *jobActor) confirmed(ctx actor.Context, m *messages.ProcessConfirmed) {
	if m.Start == a.number {
		a.start.Confirmed()
		ctx.Send(ctx.Parent(), &handshakeOver{id: a.id, started: true})
		a.tellDeferred()
	}
}

func (a *jobActor) failed(_ actor.Context, m *messages.ProcessFailed) {
	if m.Start == a.number {
		a.broken = m.Text
		a.abandon(a.start.Failed(m.Text))
	}
}

func (a *jobActor) abandon(do handshake.Action) {
	if do == handshake.Abandon {
		a.config.Processes.Abandon(a.number)
	}
}

func (a *jobActor) gone(ctx actor.Context, m *messages.ProcessGone) {
	if m.Start != a.number {
		return
	}
	if m.NeverActed {
		a.start.NeverActed(a.broken)
	}
	if a.start.Gone(m.Text) != handshake.Finalize {
		return
	}
	a.question, a.observing = nil, nil
	a.how = m.Text
	if reason := a.start.StartFailure(); reason != "" && !a.wishes.calledOff {
		ctx.Send(ctx.Parent(), &startBroken{a.id, reason})
		a.giveBack(ctx)
		return
	}
	ctx.Send(ctx.Parent(), &handshakeOver{id: a.id})
	a.settle(ctx)
}

// giveBack returns a job on which no process has acted to the queue. Its file must
// not name the process any more then: a later daemon would take the job for one
// that has died. In a cluster the name stays once it is in the log, and the job
// fails: a log that is repeated could not tell the file of the next start from that
// of this one (replication.Supersedes).
func (a *jobActor) giveBack(ctx actor.Context) {
	if !a.recorded {
		a.backToQueue(ctx)
		return
	}
	a.store.Read(ctx, "return-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.FileRead) {
		if m.Failure != nil {
			a.refused(ctx, m.Failure, a.giveBack)
			return
		}
		switch j, err := job.Decode(m.Content); {
		case m.Missing || err != nil || j.Status() != job.Queued:
			a.settle(ctx) // somebody meddled with the file
		case !paths.IsJobLivelock(j.Livelock):
			a.backToQueue(ctx)
		case a.config.Replicator != nil:
			a.settle(ctx)
		default:
			a.write(ctx, "return-job", a.known, func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					a.refused(ctx, f, a.giveBack)
					return
				}
				a.backToQueue(ctx)
			})
		}
	})
}

// backToQueue: a client that wants the job canceled has its wish, for nothing of
// the job will act.
func (a *jobActor) backToQueue(ctx actor.Context) {
	if len(a.wishes.cancels) > 0 {
		a.wishes.calledOff = true
		a.settle(ctx)
		return
	}
	ctx.Send(ctx.Parent(), &cannotSpawn{a.id, a.start.StartFailure(), a.wishes.priority()})
}

// settle makes sure that a job whose process is gone has a final file: read it,
// and write the end if the process did not (design.md 4, "Death").
func (a *jobActor) settle(ctx actor.Context) {
	a.store.Read(ctx, "end-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.FileRead) {
		if m.Failure != nil {
			a.refused(ctx, m.Failure, a.settle)
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
		case a.unsynced || a.how != handshake.CleanExit:
			a.writeEnd(ctx, j, encoded) // it says so, but power loss might take that away
		default:
			a.observeEnd(ctx, encoded, func(ctx actor.Context) { a.ended(ctx, j, encoded) })
		}
	})
}

// end makes a job final that its process did not, and reports whether it had to.
func (a *jobActor) end(j *job.Job) bool {
	if a.wishes.calledOff && !j.Status().Final() {
		j.CancelUnstarted(nil, a.now())
		return true
	}
	return handshake.FinalizeJob(j, a.start.StartFailure()+a.hopeless, a.how, a.now())
}

func (a *jobActor) ended(ctx actor.Context, j *job.Job, encoded []byte) {
	ctx.Send(ctx.Parent(), &released{a.id, &messages.JobEnded{Id: a.id, Encoded: encoded}, a.answersAtEnd(j.Status())})
}

func (a *jobActor) writeEnd(ctx actor.Context, j *job.Job, encoded []byte) {
	a.write(ctx, "end-job", encoded, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			a.unsynced = true
			a.refused(ctx, f, a.settle)
			return
		}
		a.ended(ctx, j, encoded)
	})
}

// refused tries again later, without end: a job has not ended before its end is
// on the disk, and one that cannot be read may be running.
func (a *jobActor) refused(ctx actor.Context, f *messages.Failure, retry func(actor.Context)) {
	delay := kit.Backoff(a.tries)
	a.tries++
	a.retry = retry
	a.log().WithFields(logrus.Fields{"err": f.Text, "again": delay}).Error("a job's file cannot be read or written")
	kit.SendAfter(a.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &tryAgain{})
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
	a.store.Quarantine(ctx, paths.JobPath(a.id), func(ctx actor.Context, _ *messages.Quarantined) { finish(ctx) })
}

// unlessArchived: the order to adopt a job can cross with its end, and then the job
// may have been archived since.
func (a *jobActor) unlessArchived(ctx actor.Context, finish func(actor.Context)) {
	a.store.Read(ctx, "end-job", paths.ArchivePath(a.id), func(ctx actor.Context, m *messages.FileRead) {
		if m.Failure != nil {
			a.refused(ctx, m.Failure, a.settle)
			return
		}
		if j, err := job.Decode(m.Content); !m.Missing && err == nil && j.Status().Final() {
			a.ended(ctx, j, m.Content)
			return
		}
		finish(ctx)
	})
}

// reported passes on what the process says its file holds now.
func (a *jobActor) reported(ctx actor.Context, m *messages.ProcessReport) {
	if m.Livelock != a.job.Livelock || !a.start.MayAct() {
		a.unheard = a.order == nil // else it is not the process of this attempt
		return
	}
	if len(m.Encoded) > 0 {
		a.progress(ctx, m.Encoded)
		return
	}
	a.lookForReport(ctx)
}

// lookAgain is due some time after the file could not be read; look is the number of
// that attempt.
type lookAgain struct{ look uint64 }

// lookForReport reads what the process did not put into its report, until that has
// succeeded or something newer is heard.
func (a *jobActor) lookForReport(ctx actor.Context) {
	a.look(ctx, func(ctx actor.Context, found looked, f *messages.Failure) {
		if f != nil && found != superseded {
			kit.SendAfter(a.config.Env.Clock(), ctx.ActorSystem(), time.Second, ctx.Self(), &lookAgain{a.looks})
		}
	})
}

func (a *jobActor) lookAgain(ctx actor.Context, m *lookAgain) {
	if m.look == a.looks && a.start.MayAct() {
		a.lookForReport(ctx)
	}
}

// looked is what has come of a look at the job's file.
type looked int

const (
	passedOn   looked = iota // the queue knows what the file holds, if it could be read
	superseded               // something newer was heard meanwhile, or is being looked at
	hasEnded                 // the process has written the job's end, and is about to exit
)

// look reads what the job's file holds, and passes that on.
func (a *jobActor) look(ctx actor.Context, then func(ctx actor.Context, found looked, f *messages.Failure)) {
	a.looks++
	look := a.looks
	a.store.Read(ctx, "report-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.FileRead) {
		if !a.start.MayAct() {
			return // its process is gone meanwhile, and its end is being settled
		}
		found := passedOn
		switch j, err := job.Decode(m.Content); {
		case look != a.looks:
			found = superseded
		case err != nil:
		case j.Status().Final(): // an end that is not told by the process's exit may not be durable yet
			found = hasEnded
		default:
			a.progress(ctx, m.Content)
		}
		then(ctx, found, m.Failure)
	})
}

// progress passes on what the job's file holds.
func (a *jobActor) progress(ctx actor.Context, encoded []byte) {
	a.looks++
	a.report = encoded
	ctx.Send(a.config.Queue, &messages.JobProgress{Id: a.id, Encoded: encoded})
	if a.config.Replicator != nil {
		ctx.Send(a.config.Replicator, &messages.ObserveJob{Id: a.id, Encoded: encoded})
	}
	a.answerIfTooLate(ctx)
}

func (a *jobActor) write(ctx actor.Context, op string, content []byte, done func(actor.Context, *messages.Failure)) {
	file := &messages.FileWrite{Op: op, Path: paths.JobPath(a.id), Content: content}
	a.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, m *messages.FilesDone) {
			if len(m.Failures) > 0 {
				done(ctx, m.Failures[0].Failure)
				return
			}
			done(ctx, nil)
		})
}

func (a *jobActor) now() job.Timestamp { return job.TimestampOf(a.config.Env.Clock().Now()) }

func (a *jobActor) log() *logrus.Entry { return a.config.Env.Log().WithField("job", a.id) }
