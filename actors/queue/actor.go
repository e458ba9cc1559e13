// Package queue is the actor that admits jobs, gives them their ids, and knows
// where each of them is.
//
// It owns the serial, the index of all live jobs, the records beside their files
// (package record) and the step from queued to picked: cancel, pick and priority of a queued job meet here and nowhere else.
// It may be asked to submit, list, watch, cancel, reprioritise and archive jobs. It tells the scheduler who
// waits and who has left, the jobs actor what to start or adopt, the lock manager
// which jobs are over, watchers and followers what has changed, gateways that it has started. After a crash it reads everything
// again from the disk and from the jobs actor; what a client was told is on the
// disk by then, requests in hand are lost and their senders told so
// (messages.QueueStarted). Secrets survive its crash, in the Vault, but not the
// daemon's: they are never on a disk.
package queue

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
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
	Env       *kit.Env
	Store     *actor.PID
	Scheduler *actor.PID
	Jobs      *actor.PID
	Locks     *actor.PID
	Cluster   *actor.PID
	Filters   *actor.PID
	Gateways  []*actor.PID
	Catalogue *opcode.Catalogue
	Livelock  string
	Limits    Limits
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
	vault, catalogue := Vault{}, c.Catalogue
	return c.Env.Props("queue", func() actor.Actor {
		incarnation++
		c.Catalogue = catalogue
		return &queue{
			config: c, vault: vault, incarnation: incarnation, catalogue: &catalogue,
			store:    store.NewClient(c.Store, incarnation),
			entries:  map[int64]*entry{},
			watching: map[string]int64{},
			requests: newRequests(),
			tally:    newTally(),
			verdicts: map[int64]*messages.Verdict{}, dependents: dependents{},
			judging: uint64(incarnation) << 32, // answers to a former incarnation are not for this one
		}
	})
}

type queue struct {
	config      Config
	vault       Vault
	incarnation uint32
	catalogue   **opcode.Catalogue // for the next incarnation
	store       *store.Client

	recovery  *recovery // not nil until the disk has been read
	resources *config.Resources
	known     []byte // the configuration that they are of
	serial    int64  // last id given away
	recorded  int64  // the serial on the disk
	drained   bool
	entries   map[int64]*entry
	order     []int64          // ids of entries, ascending, and of some that were archived
	watching  map[string]int64 // watcher's pid id -> job it watches
	followers []*actor.PID     // watch all jobs
	requests  requests
	tally     tally

	dependents  dependents
	afterCommit []func(actor.Context) // waits for the commit that is running

	judging  uint64                      // number of the last question to the filter engine
	unjudged *messages.JudgeJobs         // that question, if it has no answer yet
	asked    bool                        // the filter engine, about all jobs
	judged   bool                        // the filter engine knows all jobs, and we its verdicts
	verdicts map[int64]*messages.Verdict // on jobs that are not simply accepted
	populace uint64                      // epoch of a scheduler that waits for the population

	unfinished  int           // jobs that have not ended, those being committed too
	incoming    []*submission // wait for the commit that is running
	group       []*submission // the commit that is running
	quarantined []string      // files set aside since the daemon's start
	draining    *actor.PID    // who asked; nothing new is taken any more
	drainTold   bool
}

// entry is one live job. info is replaced, never changed.
type entry struct {
	info     *messages.JobInfo
	place    place
	watchers []*actor.PID
	told     *shown  // what followers know of it; nil: nothing
	blockers []int64 // on which it depends, see dependents; until it has ended
	record   record.Record
	recorded bool // there may be a file for it
	counted  counted
}

// place is where a job is, as the queue sees it.
type place uint8

const (
	pending  place = iota // with the scheduler
	changing              // its file is being rewritten for a client
	out                   // with the jobs actor
	final                 // nowhere: only a file
)

func (q *queue) Receive(ctx actor.Context) {
	if q.store.Handle(ctx) {
		q.tellDrained(ctx)
		return
	}
	if q.recovery != nil && q.hold(ctx) {
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
	case *messages.AskSubmission:
		q.askSubmission(ctx, sender, m)
	case *messages.AskReady:
		ctx.Send(sender, &messages.QueueStarted{Epoch: uint64(q.incarnation)})
	case *messages.ListJobs:
		q.list(ctx, sender, m)
	case *messages.CancelJob:
		q.cancel(ctx, sender, m)
	case *messages.ChangePriority:
		q.changePriority(ctx, sender, m)
	case *restoreAgain:
		q.restoreAgain(ctx, m)
	case *readAgain: // by a former incarnation
	case *messages.ArchiveJobs:
		q.archive(ctx, sender, m)
	case *messages.SetDrain:
		q.setDrain(ctx, sender, m)
	case *messages.AskStatus:
		q.status(ctx, sender, m)
	case *messages.WatchJob:
		q.watch(ctx, sender, m)
	case *messages.UnwatchJob:
		q.unwatch(sender)
	case *messages.FollowJobs:
		q.follow(ctx, sender)
	case *actor.Terminated:
		q.unwatch(m.Who)
		q.unfollow(m.Who)
	case *messages.PickJob:
		q.pick(ctx, m.Id)
	case *messages.JobProgress:
		q.progress(ctx, m.Id, m.Encoded)
	case *messages.JobEnded:
		q.ended(ctx, m)
	case *messages.FiltersStarted:
		q.askAboutAll(ctx)
	case *messages.JobsJudged:
		q.jobsJudged(ctx, m)
	case *messages.VerdictsChanged:
		q.verdictsChanged(ctx, m)
	case *messages.AskOutcome:
		q.outcome(ctx, m.Id)
	case *messages.JobHeld:
		q.held(ctx, m)
	case *messages.DoomJob:
		q.doom(ctx, m)
	case *messages.OpcodesChanged:
		q.opcodesChanged(m)
	case *messages.AskSerial:
		ctx.Send(sender, &messages.Serial{Request: m.Request, Serial: q.serial})
	case *messages.AskJobOver:
		q.askJobOver(ctx, sender, m)
	case *messages.JobReturned:
		q.returned(ctx, m.Id)
	case *messages.SchedulerStarted:
		q.populate(ctx, m.Epoch)
	case *messages.JobsStarted:
		q.adoptAll(ctx)
	case *messages.JobsInHand:
		q.recoveredHands(ctx, m)
	case *messages.ConfigChanged:
		q.configChanged(ctx, m)
	case *messages.Drain:
		q.drain(ctx, sender)
	default:
		kit.Unexpected(ctx)
	}
}

func (q *queue) now() job.Timestamp { return job.TimestampOf(q.config.Env.Clock().Now()) }

// put makes info what the queue knows of a job.
func (q *queue) put(info *messages.JobInfo, at place) *entry {
	e := q.entries[info.Id]
	if e == nil {
		e = &entry{}
		q.entries[info.Id] = e
		q.order = append(q.order, info.Id) // ids only ever rise
	}
	e.info, e.place = info, at
	q.count(info.Id, e)
	return e
}

func (q *queue) newInfo(j *job.Job, encoded []byte) *messages.JobInfo {
	return query.NewJobInfo(j, q.config.Catalogue.Summary, encoded)
}

// drain finishes the commits that have begun; what comes later is refused. Who
// asks again is told again.
func (q *queue) drain(ctx actor.Context, sender *actor.PID) {
	q.draining, q.drainTold = sender, false
	q.tellDrained(ctx)
}

func (q *queue) tellDrained(ctx actor.Context) {
	if q.draining != nil && !q.drainTold && q.group == nil && len(q.incoming) == 0 && q.store.Idle() {
		ctx.Request(q.draining, &messages.Drained{})
		q.drainTold = true
	}
}
