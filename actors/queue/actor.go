// Package queue is the actor that accepts jobs, gives them their ids, and knows the
// stage of each job.
//
// It owns the serial, the index of all jobs that are not archived, the job records
// (package record), and the files of pending jobs: a job is canceled, picked and given
// another priority in one place, so that these cannot contradict each other. It may be
// asked to submit, list, watch, cancel, reprioritise, hold, release and archive jobs.
//
// It tells the scheduler which jobs are pending and which are not pending any longer,
// the jobs actor which jobs to start or adopt, the lock manager which jobs have ended,
// subscribers which jobs have changed, and gateways that it has started.
//
// A client is answered when the result is durable. After a crash the queue reads the
// disk and asks the jobs actor for the active jobs. Requests that were not answered are
// lost; messages.QueueStarted tells their senders. Secrets and the catalogue survive a
// crash of the queue, not of the daemon.
package queue

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kit"
	"lockstep/actors/opcodes"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/query"
	"lockstep/core/record"
	"lockstep/core/runas"
	"lockstep/messages"
)

// Config has the neighbours, limits and settings of the queue.
type Config struct {
	Env           *kit.Env
	Store         *actor.PID
	Scheduler     *actor.PID
	Jobs          *actor.PID
	Locks         *actor.PID
	ClusterConfig *actor.PID
	Filters       *actor.PID
	Gateways      []*actor.PID
	Catalogue     *opcode.Catalogue
	Livelock      string           // path of the daemon's livelock
	Daemon        access.Submitter // the daemon's user, to whom jobs without a submitter belong
	Limits        Limits
	ArchiveAfter  time.Duration // after which ended jobs are archived if no setting says it; 0: never
	// Shared is true in a cluster of several nodes. Then another node may have archived
	// jobs that this node lacks.
	Shared bool
	// GanetiJobs is true in Ganeti mode: Ganeti's job process runs Ganeti's opcodes.
	GanetiJobs bool
	RunAs      runas.Policy // as whom the commands of jobs run
	// SliceWork is the work between two messages, in steps of about 20 ns; 0: 250,000.
	SliceWork int
}

// Props describes the queue, the actor that accepts jobs, gives them their ids and knows the stage of each. Secrets and the catalogue
// survive a crash of the actor, but not the end of the daemon.
func Props(c Config) *actor.Props {
	kept := &retained{secrets: Secrets{}, catalogue: c.Catalogue}
	return kit.NumberedProps(c.Env, "queue", func(incarnation uint32) actor.Actor {
		return &queue{
			config: c, incarnation: incarnation, retained: kept,
			store:       store.NewClient(c.Store, incarnation),
			admission:   admission{limits: c.Limits, asGaneti: c.GanetiJobs},
			index:       newIndex(kept.secrets),
			records:     newRecords(),
			submissions: newSubmissions(c.Livelock, c.GanetiJobs),
			verdicts:    newVerdicts(incarnation),
			holds:       newHolds(),
			orders:      orderBatches{waiting: map[uint64]awaitedOrder{}},
			callOffs:    kit.NewAsker[*messages.CallOffResult](c.Jobs, incarnation),
			subscribers: newSubscribers(),
			retries:     map[int64]uint64{},
			launcher:    launcher{retained: kept, ganetiJobs: c.GanetiJobs, runAs: c.RunAs},
		}
	})
}

// queue decodes messages, asks the parts below, performs what they decide, and sends
// the answers. Each part owns its state.
type queue struct {
	config      Config
	incarnation uint32
	retained    *retained
	store       *store.Client
	// recovery is nil when the disk has been read.
	recovery *recovery

	admission   admission
	index       *index
	records     *records
	submissions *submissions
	verdicts    *verdicts
	holds       holds
	orders      orderBatches
	callOffs    kit.Asker[*messages.CallOffResult] // a new jobs actor gets the open ones again
	archiver    archiver
	subscribers *subscribers
	launcher    launcher
	retries     map[int64]uint64    // pending jobs that the scheduler gets later, by number of the retryDue
	retried     uint64              // last number of a retryDue
	next        func(actor.Context) // the next slice of the running commit; a proceed is on its way

	// quarantined are the paths of the files that were quarantined in this incarnation.
	quarantined []string
}

func (q *queue) Receive(ctx actor.Context) {
	if q.store.Handle(ctx) {
		q.sendDrained(ctx)
		return
	}
	if q.recovery != nil && q.deferMessage(ctx) {
		return
	}
	q.handle(ctx, ctx.Message(), ctx.Sender())
}

// handle handles a message. ctx belongs to a later message, with another sender, if
// this message was deferred during the recovery.
func (q *queue) handle(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *actor.Started:
		q.recover(ctx)
	case *messages.SubmitJobs:
		q.submit(ctx, sender, m)
	case *messages.CheckSubmission:
		q.checkSubmission(ctx, sender, m)
	case *messages.AnnounceQueue:
		ctx.Send(sender, &messages.QueueStarted{Incarnation: uint64(q.incarnation)})
	case *messages.ListJobs:
		q.list(ctx, sender, m)
	case *messages.OrderJob, *messages.OrderJobs, *messages.OrderJobResult, *moreOrders, *ordersOverdue:
		q.handleOrders(ctx, message, sender)
	case *retryRestore, *retryRecord, *retryDue, *retryTry:
		q.retry(ctx, message)
	case *rereadDue: // of a former incarnation
	case *proceed:
		q.proceed(ctx, m)
	case *retentionDue:
		q.archiveDue(ctx, m)
	case *messages.ArchiveJobs:
		q.archive(ctx, sender, m)
	case *messages.JobFileMissed:
		q.fileMissed(ctx, m.Id)
	case *messages.SetDrain:
		q.setDrain(ctx, sender, m)
	case *messages.GetQueueStatus:
		q.status(ctx, sender, m)
	case *messages.SubscribeJob:
		q.subscribe(ctx, sender, m)
	case *messages.UnsubscribeJob:
		q.subscribers.unsubscribe(sender)
	case *messages.SubscribeAllJobs:
		q.subscribeAll(ctx, sender, m)
	case *actor.Terminated:
		q.subscribers.terminated(m.Who)
	case *messages.PickJob:
		q.pick(ctx, m.Id)
	case *messages.JobProgressed:
		q.progress(ctx, m)
	case *messages.JobEnded:
		q.ended(ctx, m)
	case *messages.FiltersStarted, *messages.EvaluateFiltersResult, *messages.VerdictsChanged, *messages.ReachOp, *messages.ReachOpResult:
		q.handleVerdicts(ctx, message)
	case *messages.GetJobOutcome:
		q.jobOutcome(ctx, m.Id)
	case *messages.StartWaitChanged:
		q.startWaitChanged(ctx, m)
	case *messages.EndUnrunnableJob:
		q.endUnrunnable(ctx, m)
	case *opcodes.Changed:
		q.opcodesChanged(m)
	case *messages.GetSerial:
		ctx.Send(sender, &messages.GetSerialResult{Request: m.Request, Serial: q.submissions.serial})
	case *messages.AwaitJobCleanup:
		q.awaitCleanup(ctx, sender, m)
	case *messages.CallOffResult:
		q.callOffs.Answered(ctx, m.Request, m)
	case *messages.JobReturned:
		q.returned(ctx, m)
	case *messages.JobTryEnded:
		q.tryEnded(ctx, m)
	case *messages.ListUnfinishedJobs:
		q.sendUnfinishedJobs(ctx, m.Request)
	case *messages.JobsActorStarted:
		q.adoptAll(ctx)
		q.callOffs.Repeat(ctx)
	case *messages.ListActiveJobsResult:
		q.activeJobsListed(ctx, m)
	case *clusterconfig.ConfigPublished:
		q.configChanged(ctx, m)
	case *messages.Drain:
		q.drain(ctx, sender)
	default:
		kit.Unexpected(ctx)
	}
}

// retry handles the timer message after something that could not be done.
func (q *queue) retry(ctx actor.Context, message any) {
	switch m := message.(type) {
	case *retryRestore:
		q.retryRestore(ctx, m)
	case *retryRecord:
		q.retryRecord(ctx, m)
	case *retryDue:
		q.retryStart(ctx, m)
	case *retryTry:
		q.retryTry(ctx, m)
	}
}

func (q *queue) now() job.Timestamp { return job.TimestampOf(q.config.Env.Clock().Now()) }

// newInfo is the part of a new job that the queue keeps in memory.
func (q *queue) newInfo(j *job.Job, encoded []byte, r record.Record) *messages.JobInfo {
	info := query.NewJobInfo(j, q.retained.catalogue.Summary, encoded)
	query.AddOrigin(info, j)
	query.AddRecord(info, j, r)
	info.RunAs = q.launcher.runsAs(r)
	return info
}

// nextInfo is the info of a job whose file has changed. What the job waits for is shown until its process has
// reported another status than queued.
func (q *queue) nextInfo(e *entry, j *job.Job, encoded []byte) *messages.JobInfo {
	info := query.NewJobInfo(j, q.retained.catalogue.Summary, encoded)
	info.User, info.Reasons = e.info.User, e.info.Reasons
	if j.IsPending() {
		info.Wait = e.info.Wait
	}
	query.AddRecord(info, j, q.records.get(e.info.Id))
	info.RunAs = e.info.RunAs
	return info
}
