package jobs

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/queuecopy"
	"lockstep/actors/store"
	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/paths"
	"lockstep/core/rawjson"
	"lockstep/core/record"
	"lockstep/messages"
)

// jobActor owns one active job.
type jobActor struct {
	config          Config
	id              int64
	attempt         uint64 // number of this actor
	number          int64  // of the start in the life of the job; no earlier start has it
	program         messages.JobProgram
	initial         []byte             // the job as the queue sent it
	start           *messages.StartJob // nil: adopted
	handshakeError  string             // why the handshake failed
	processRecorded bool               // the store was asked to write the process into the job's file
	recording       bool               // that write is under way
	// afterRecording runs when that write is done: in a cluster, a read of the file could precede it. nil: the process waits for it.
	afterRecording func(actor.Context)
	retryLost      []int32 // the opcodes, by index, that are tried again if the process dies
	gaveUpText     string  // why a failed start is not tried again
	store          *store.Client
	handshake      handshake.Attempt
	job            *job.Job // as last known; the file is authoritative
	exitText       string   // how the process ended
	used           handshake.Used
	canceled       bool // the port has ended the process by a cancel
	// unsynced: the final file was written, but may not be durable.
	unsynced bool
	report   []byte // last content that the process reported
	// afterReplication runs when a majority has the end that the process wrote; nil: not
	// waiting for that.
	afterReplication func(actor.Context)
	replication      uint64             // number of the last ReplicateJobFile
	permission       *permissionRequest // open BeginOp of the process, until the scheduler has it; nil: none
	version          uint64             // counts reports and reads of the file; the result of a read with a lower number is dropped
	reportMissed     bool               // a report came before the adoption was complete
	callOff          uint64             // number of the open CallOff; 0: none
	orders           clientOrders
	said             commandSaid
	readerSince      int64     // as the jobs actor was told
	failing          bool      // the jobs actor was told that the file cannot be written
	tries            int       // failed disk requests
	triedSince       time.Time // of the first of them
	retry            func(actor.Context)
}

// retryDisk is a timer after a failed disk request.
type retryDisk struct{}

func newJobActor(c Config, id int64, attempt uint64, active *activeJob, start *messages.StartJob) *jobActor {
	// The number is unique in the daemon's life. Its lower half is unique among the actors
	// that can have open requests at the same time.
	return &jobActor{
		config:    c,
		id:        id,
		attempt:   attempt,
		program:   active.program,
		retryLost: active.retryLost,
		initial:   active.encoded,
		start:     start,
		store:     store.NewClient(c.Store, uint32(attempt)),
	}
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
	case *messages.AwaitJobCleanup:
		a.config.Processes.Probe(a.attempt)
	case *stopBeginning:
		a.stopBeginning(ctx, m)
	case *messages.GetBeginWaitResult:
		a.beginWaits(ctx, m)
	case *cancelTimeout:
		a.cancelTimeout(ctx, m)
	case *messages.BeginOp:
		a.beginOp(ctx, m)
	case *messages.IdentifyJob:
		a.identify(ctx, m)
	case *messages.ReplicateJobFileResult:
		a.replicated(ctx, m)
	case *queuecopy.Started:
		if a.handshake.MayAct() {
			a.copyByProcess(ctx)
		}
	case *retryDisk:
		a.retry(ctx)
	case *retryRead:
		a.retryRead(ctx, m)
	case *tellDue:
		a.tellDueProgress(ctx)
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
	a.number = paths.StartOfLivelock(j.Livelock) + 1
	a.config.Processes.Start(a.attempt, Job{a.id, a.program, a.number}, ctx.Self())
}

// abandonStart ends a process that has no permission yet. Without this actor nothing would
// give it one, and it would wait.
func (a *jobActor) abandonStart() {
	if a.start != nil && a.handshake.Phase() <= handshake.Confirming {
		a.config.Processes.Abandon(a.attempt)
	}
}

// processNamed makes the livelock's name and the pid durable before the process may act.
// From then on a reader of the file can find out whether the process is alive.
func (a *jobActor) processNamed(ctx actor.Context, m *messages.ProcessNamed) {
	if m.Attempt != a.attempt || a.handshake.LivelockNamed() != handshake.Save {
		return
	}
	if start := paths.StartOfLivelock(m.Livelock); a.config.Replicator != nil && start != a.number {
		a.abandon(a.handshake.Failed(fmt.Sprintf("the process has made the lock file of start %d, not %d", start, a.number)))
		return
	}
	j := a.job.Clone()
	j.Livelock, j.ProcessID = m.Livelock, int(m.Pid)
	// Noted before the answer of the store: the file may name the process from now on, so that the end of a failed start must look at it.
	a.processRecorded, a.recording = true, true
	a.write(ctx, "start-job", job.Encode(j), func(ctx actor.Context, f *messages.Failure) {
		a.recording = false
		// The process has ended during the write. What follows reads the file, and had to wait until the name is in it.
		if undo := a.afterRecording; undo != nil {
			a.afterRecording = nil
			undo(ctx)
			return
		}
		if f != nil {
			a.abandon(a.handshake.Failed(f.Text))
			return
		}
		a.job = j
		// Asked after the write, which may have taken longer than the lease: the jobs of a former master must not act.
		if !a.config.mayPermit() {
			a.abandon(a.handshake.Failed("this node is not the master any more"))
			return
		}
		// From here on the process may act: its name is durable, so that every later daemon can find out whether it lives. Permitted earlier,
		// the job could run twice after a crash.
		if a.handshake.NameSaved() == handshake.Confirm {
			a.copyByProcess(ctx)
			a.config.Processes.Confirm(a.attempt, a.start.Launch)
		}
	})
}

func (a *jobActor) processConfirmed(ctx actor.Context, m *messages.ProcessConfirmed) {
	if m.Attempt == a.attempt {
		a.handshake.Confirmed()
		ctx.Send(ctx.Parent(), &handshakeEnded{id: a.id, started: true})
		// The orders wait until here: they can signal the process, and a signal would end a process that has no handlers yet.
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
		a.handshake.NeverActed(cmp.Or(a.handshakeError, "its process has ended before it began the job: "+m.Text))
	}
	if a.handshake.Gone(m.Text) != handshake.Finalize {
		return
	}
	a.permission, a.afterReplication = nil, nil
	a.exitText, a.canceled, a.used = m.Text, m.Canceled, handshake.UsedOf(m.Usage, m.UsageOp)
	a.settleCallOff(ctx)
	switch reason := a.handshake.StartFailure(); {
	case reason == "" || a.orders.startCanceled || a.canceled:
		ctx.Send(ctx.Parent(), &handshakeEnded{id: a.id})
		a.finalize(ctx)
	case a.handshake.CalledOff():
		ctx.Send(ctx.Parent(), &handshakeEnded{id: a.id})
		a.undoStart(ctx)
	case a.start == nil: // no start of this daemon is in flight
		a.undoStart(ctx)
	default:
		ctx.Send(ctx.Parent(), &startFailed{a.id, reason})
		a.undoStart(ctx)
	}
}

// undoStart removes the process from the file of a job on which no process has acted, and
// returns the job to the queue. A file that still named the process would make a later
// daemon take the job for a dead one. The file keeps the number of the start, so that a replay
// of the log can tell it from that of the next start (replication.Supersedes).
func (a *jobActor) undoStart(ctx actor.Context) {
	switch {
	case a.recording:
		a.afterRecording = a.undoStart
		return
	case a.cancelsStart(ctx):
		return
	case !a.processRecorded:
		a.returnToQueue(ctx, nil)
		return
	}
	a.store.Read(ctx, "return-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			a.retryLater(ctx, m.Failure, a.undoStart)
			return
		}
		switch j, err := job.Decode(m.Content); {
		case m.Missing || err != nil || !j.IsPending():
			a.finalize(ctx) // the file was changed by another program
		case !paths.IsJobLivelock(j.Livelock) && a.config.Replicator == nil:
			a.returnToQueue(ctx, m.Content)
		default: // the log of a cluster may name the process, although this node's disk does not
			j.Livelock, j.ProcessID = paths.UndoneLivelock(a.number), 0
			undone := job.Encode(j)
			a.write(ctx, "return-job", undone, func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					a.retryLater(ctx, f, a.undoStart)
					return
				}
				// After the write: the queue may start the job again at once, and its file must not name the former process then.
				a.returnToQueue(ctx, undone)
			})
		}
	})
}

// cancelsStart ends the job if a client or a rule has canceled it: no process will act on it. It reports whether it has.
func (a *jobActor) cancelsStart(ctx actor.Context) bool {
	if len(a.orders.cancels) == 0 && !a.orders.killed {
		return false
	}
	a.orders.startCanceled = true
	a.finalize(ctx)
	return true
}

// returnToQueue returns the job, whose file has the content; nil: it has not changed.
func (a *jobActor) returnToQueue(ctx actor.Context, encoded []byte) {
	if a.cancelsStart(ctx) { // the order came during the last write
		return
	}
	a.copyEnd(ctx)
	ctx.Send(ctx.Parent(), &startUndone{a.id, encoded, a.handshake.CalledOff(), a.orders.priority})
}

// finalize makes sure that the file of a job without a process is final: it reads the file,
// and writes the end if the process did not (design.md "Death").
func (a *jobActor) finalize(ctx actor.Context) {
	if a.recording {
		a.afterRecording = a.finalize
		return
	}
	a.store.Read(ctx, "end-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			a.retryLater(ctx, m.Failure, a.finalize)
			return
		}
		encoded := m.Content
		j, err := job.Decode(encoded)
		if m.Missing || err != nil || j.ID != job.ID(a.id) {
			// Another program has changed the file. The known content is written again; an
			// unreadable file goes to the quarantine.
			a.repair(ctx, m.Missing)
			return
		}
		switch {
		case a.triesAgain(j):
			a.tryEnded(ctx, j)
		case a.end(j):
			a.writeEnd(ctx, j, job.Encode(j))
		case a.unsynced || a.exitText != handshake.CleanExit || a.program == messages.JobProgram_GANETI_JOB:
			a.writeEnd(ctx, j, encoded) // the file is final, but may not be durable: Ganeti's process does not sync the directory
		default:
			// The process has written this end durably itself. In a cluster a majority must have it before a client hears of it.
			a.replicateEnd(ctx, encoded, func(ctx actor.Context) { a.ended(ctx, j, encoded) })
		}
	})
}

// end makes the job final if its process did not: canceled or rejected if that was ordered before it began, else failed. It reports
// whether it changed the job.
func (a *jobActor) end(j *job.Job) bool {
	executing, _ := j.Progress()
	if canceled := a.orders.startCanceled || (a.canceled || j.TryEnded()) && executing < 0; canceled && !j.Status().Final() {
		switch v := a.orders.rejection; {
		case v != nil:
			record.Reject(j, v.Rule, v.Reason, a.now())
		case a.orders.startCanceled:
			j.CancelUnstarted(nil, a.now())
		default:
			j.CancelUnstarted(rawjson.Quote(jobproc.CanceledByRequest), a.now())
		}
		return true
	}
	return handshake.FinalizeJob(j, handshake.Death{StartFailure: a.handshake.StartFailure() + a.gaveUpText, Exit: a.exitText,
		GanetiLog: a.config.GanetiLog, Used: a.used}, a.now())
}

func (a *jobActor) ended(ctx actor.Context, j *job.Job, encoded []byte) {
	// Before the release: the answer to a client may wait for the copy of this end, of which the copier must know by then.
	a.copyEnd(ctx)
	ctx.Send(ctx.Parent(), &jobReleased{a.id, &messages.JobEnded{Id: a.id, Encoded: encoded}, a.cancelAnswersAtEnd(j.Status())})
}

func (a *jobActor) writeEnd(ctx actor.Context, j *job.Job, encoded []byte) {
	a.write(ctx, "end-job", encoded, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			// The file may be replaced without being durable. The next round finds it final then, and must write it again nevertheless.
			a.unsynced = true
			a.retryLater(ctx, f, a.finalize)
			return
		}
		a.ended(ctx, j, encoded)
	})
}

// retryLater repeats a disk request without limit: a job has ended only when its end is on
// the disk, and a job whose file cannot be read may be running.
func (a *jobActor) retryLater(ctx actor.Context, f *messages.Failure, retry func(actor.Context)) {
	if a.tries == 0 {
		a.triedSince = a.config.Env.Clock().Now()
	}
	delay := kit.Backoff(a.tries)
	a.tries++
	a.retry = retry
	a.reportFailing(ctx, f.Text, a.triedSince, false)
	kit.SendAfter(a.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryDisk{})
}

func (a *jobActor) repair(ctx actor.Context, missing bool) {
	finish := func(ctx actor.Context) {
		a.log().Error("job file of a running job is missing or invalid; writing its end from memory")
		j := a.job.Clone()
		if a.triesAgain(j) {
			a.tryEnded(ctx, j)
			return
		}
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

// unlessArchived calls finish unless the job is archived: the order to adopt a job can
// cross with its end, and the job may have been archived since.
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
