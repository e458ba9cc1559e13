// Package queue is the actor that admits jobs, gives them their ids, and knows
// where each of them is.
//
// It owns the serial, the index of all live jobs, the records beside their files
// (package record) and the step from queued to picked: cancel, pick and priority of a queued job meet here and nowhere else.
// It may be asked to submit, list, watch, cancel, reprioritise and archive jobs. It tells the scheduler who
// waits and who has left, the jobs actor what to start or adopt, the lock manager
// which jobs are over, subscribers what has changed, gateways that it has started. After a crash it reads everything
// again from the disk and from the jobs actor; what a client was told is on the
// disk by then, open requests are lost and their senders told so
// (messages.QueueStarted). Secrets survive its crash (type Secrets), but not the
// daemon's: they are never on a disk.
package queue

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/opcodes"
	"lockstep/actors/store"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/query"
	"lockstep/core/record"
	"lockstep/messages"
)

// Config is what the queue needs. Livelock is the path of the daemon's own.
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
	Livelock      string
	Limits        Limits
	// Shared: other nodes have this queue, too, and may have archived jobs that this
	// one lacks.
	Shared bool
}

// Limits are what the queue takes; 0 means any number.
type Limits struct {
	Unfinished int // jobs that have not ended
	Ops        int // opcodes of one job
	JobBytes   int // of one job's file
}

// Props makes the queue. Its incarnations are numbered from 1.
func Props(c Config) *actor.Props {
	incarnation := uint32(0)
	vault, catalogue := Secrets{}, c.Catalogue
	return c.Env.Props("queue", func() actor.Actor {
		incarnation++
		c.Catalogue = catalogue
		return &queue{
			config: c, secrets: vault, incarnation: incarnation, catalogue: &catalogue,
			store:         store.NewClient(c.Store, incarnation),
			entries:       map[int64]*entry{},
			subscriptions: map[string]int64{},
			submissions:   newNamedSubmissions(),
			tally:         newTally(),
			verdicts:      map[int64]*messages.Verdict{}, dependents: dependents{},
			evaluation: uint64(incarnation) << 32, // answers to a former incarnation are not for this one
		}
	})
}

type queue struct {
	config      Config
	secrets     Secrets
	incarnation uint32
	catalogue   **opcode.Catalogue // for the next incarnation
	store       *store.Client

	recovery       *recovery // not nil until the disk has been read
	resources      *config.Resources
	configContent  []byte // the configuration that they are of
	serial         int64  // last id given away
	recorded       int64  // the serial on the disk
	drained        bool
	entries        map[int64]*entry
	order          []int64          // ids of entries, ascending, and of some that were archived
	subscriptions  map[string]int64 // subscriber's pid id -> its job
	allSubscribers []*actor.PID     // watch all jobs
	submissions    namedSubmissions
	tally          tally

	dependents  dependents
	afterCommit []func(actor.Context) // waits for the commit that is running

	evaluation       uint64                      // number of the last question to the filter engine
	openEvaluation   *messages.EvaluateFilters   // that question, if it has no answer yet
	allRequested     bool                        // the filter engine, about all jobs
	verdictsKnown    bool                        // the filter engine knows all jobs, and we its verdicts
	verdicts         map[int64]*messages.Verdict // on jobs that are not simply accepted
	schedulerRequest uint64                      // epoch of a scheduler that waits for the population

	unfinished  int           // jobs that have not ended, those being committed too
	incoming    []*submission // wait for the commit that is running
	group       []*submission // the commit that is running
	quarantined []string      // files set aside since the daemon's start
	draining    *actor.PID    // who asked; nothing new is taken any more
	drainedSent bool
}

// entry is one live job. info is replaced, never changed.
type entry struct {
	info         *messages.JobInfo
	stage        stage
	subscribers  []*actor.PID
	notified     *notifiedState // what subscribers of all jobs know of it; nil: nothing
	dependencies []int64        // on which it depends, see dependents; until it has ended
	record       record.Record
	recorded     bool // there may be a file for it
	tallied      tallied
}

// stage is where a job is, as the queue sees it.
type stage uint8

const (
	pending  stage = iota // with the scheduler
	changing              // its file is being rewritten for a client
	active                // with the jobs actor
	final                 // nowhere: only a file
)

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

// handle takes a message and its sender apart from ctx, which belongs to a
// later message when this one was held during recovery.
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
	case *messages.OrderJob:
		q.ordered(ctx, sender, m)
	case *retryRestore:
		q.retryRestore(ctx, m)
	case *rereadDue: // by a former incarnation
	case *messages.ArchiveJobs:
		q.archive(ctx, sender, m)
	case *messages.SetDrain:
		q.setDrain(ctx, sender, m)
	case *messages.GetQueueStatus:
		q.status(ctx, sender, m)
	case *messages.SubscribeJob:
		q.subscribe(ctx, sender, m)
	case *messages.UnsubscribeJob:
		q.unsubscribe(sender)
	case *messages.SubscribeAllJobs:
		q.subscribeAll(ctx, sender)
	case *actor.Terminated:
		q.unsubscribe(m.Who)
		q.unsubscribeAll(m.Who)
	case *messages.PickJob:
		q.pick(ctx, m.Id)
	case *messages.JobProgressed:
		q.progress(ctx, m.Id, m.Encoded)
	case *messages.JobEnded:
		q.ended(ctx, m)
	case *messages.FiltersStarted:
		q.requestAllVerdicts(ctx)
	case *messages.EvaluateFiltersResult:
		q.verdictsReceived(ctx, m)
	case *messages.VerdictsChanged:
		q.verdictsChanged(ctx, m)
	case *messages.GetJobOutcome:
		q.jobOutcome(ctx, m.Id)
	case *messages.DependencyWaitChanged:
		q.dependencyWaitChanged(ctx, m)
	case *messages.EndUnrunnableJob:
		q.endUnrunnable(ctx, m)
	case *opcodes.Changed:
		q.opcodesChanged(m)
	case *messages.GetSerial:
		ctx.Send(sender, &messages.GetSerialResult{Request: m.Request, Serial: q.serial})
	case *messages.AwaitJobCleanup:
		q.awaitCleanup(ctx, sender, m)
	case *messages.JobReturned:
		q.returned(ctx, m.Id)
	case *messages.ListUnfinishedJobs:
		q.sendUnfinishedJobs(ctx, m.Request)
	case *messages.JobsActorStarted:
		q.adoptAll(ctx)
	case *messages.ListActiveJobsResult:
		q.activeJobsListed(ctx, m)
	case *messages.ConfigPublished:
		q.configChanged(ctx, m)
	case *messages.Drain:
		q.drain(ctx, sender)
	default:
		kit.Unexpected(ctx)
	}
}

func (q *queue) now() job.Timestamp { return job.TimestampOf(q.config.Env.Clock().Now()) }

// putEntry makes info what the queue knows of a job.
func (q *queue) putEntry(info *messages.JobInfo, stage stage) *entry {
	e := q.entries[info.Id]
	if e == nil {
		e = &entry{}
		q.entries[info.Id] = e
		q.order = append(q.order, info.Id) // ids only ever rise
	}
	e.info, e.stage = info, stage
	q.updateTally(info.Id, e)
	return e
}

func (q *queue) newInfo(j *job.Job, encoded []byte) *messages.JobInfo {
	return query.NewJobInfo(j, q.config.Catalogue.Summary, encoded)
}

// drain finishes the commits that have begun; what comes later is refused. Who
// asks again is told again.
func (q *queue) drain(ctx actor.Context, sender *actor.PID) {
	q.draining, q.drainedSent = sender, false
	q.sendDrained(ctx)
}

func (q *queue) sendDrained(ctx actor.Context) {
	if q.draining != nil && !q.drainedSent && q.group == nil && len(q.incoming) == 0 && q.store.Idle() {
		ctx.Request(q.draining, &messages.DrainResult{})
		q.drainedSent = true
	}
}
