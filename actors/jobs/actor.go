// Package jobs holds the actors of jobs that are active (have a process): the
// jobs actor, and one job actor for each.
//
// The jobs actor owns the list of active jobs and how many starts are in
// flight. It may be asked to start and to adopt jobs; it tells the queue of each
// job, once, that it has ended or must be queued again. A job actor owns one
// process: its start handshake, its end, and the job file while no process may
// write it. A job actor's crash touches that job alone: it is adopted anew, from
// its file. A crash of the jobs actor touches no process that may act: the queue
// is asked which jobs were active, and everything is adopted.
package jobs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// Config is what the jobs actors need. MaxStarts bounds the handshakes in
// flight.
//
// In a cluster (design.md 9) Leads says whether this node is the master for
// certain, Replicator is told of what processes write, and nothing is started, nor
// taken for dead, before Fence is over: jobs of a former master may not have ended.
// Alone, all three are zero.
type Config struct {
	Env        *kit.Env
	Store      *actor.PID
	Queue      *actor.PID
	Scheduler  *actor.PID
	Processes  Processes
	MaxStarts  int
	RetryLimit RetryLimit

	Leads      func() bool
	Replicator *actor.PID
	Fence      time.Duration
}

// mayPermit: no process gets its permission from a node that may not be the master.
func (c Config) mayPermit() bool { return c.Leads == nil || c.Leads() }

// Props makes the jobs actor. A crashed job actor is stopped, not restarted:
// the jobs actor makes a new one, which starts from the disk.
func Props(c Config) *actor.Props {
	if c.RetryLimit == (RetryLimit{}) {
		c.RetryLimit = DefaultRetryLimit()
	}
	incarnation := uint64(0)
	return c.Env.Props("jobs", func() actor.Actor {
		incarnation++
		return &jobs{config: c, failedStarts: failedStarts{limit: c.RetryLimit}, attempt: incarnation << 32, lastOrder: incarnation << 32, active: map[int64]*activeJob{}, fenced: c.Fence > 0}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Stop})))
}

type jobs struct {
	config              Config
	attempt             uint64 // last number used; its upper half is the incarnation
	lastOrder           uint64 // last number of an order; so is its upper half
	active              map[int64]*activeJob
	waiting             []*messages.StartJob // for a handshake to end
	starting            int
	startsPaused        bool         // processes cannot be started, for a while
	lastStartError      string       // why the last start failed; "": it did not
	failedStarts        failedStarts // jobs whose starts have failed
	fenced              bool         // jobs of a former master may not have ended
	adoptAfterFence     []int64      // to adopt when they have
	consecutiveFailures int          // to start one, in a row
	draining            *actor.PID   // who asked; nothing new is started any more
	drainedSent         bool         // that nothing is in flight
	stopping            bool
}

// activeJob is one job of the list. pid is nil while it waits for its start; encoded is
// the job as it was handed over.
type activeJob struct {
	pid      *actor.PID
	encoded  []byte
	attempt  uint64
	starting bool
	crashes  int
	orders   map[uint64]*clientOrder // of clients, that the job's actor has and has not answered
}

// Between a job actor and its parent.
type (
	// handshakeEnded: the start is no longer in flight. started: its process may act.
	handshakeEnded struct {
		id      int64
		started bool
	}
	// startFailed: the start is no longer in flight, and no process could act.
	startFailed struct {
		id   int64
		text string
	}
	// jobReleased: the job is not active any longer; event is for the queue, and answers for
	// clients behind it: who hears that a job was ended must find it ended.
	jobReleased struct {
		id      int64
		event   any
		answers []*messages.OrderJobResult
	}
	// startUndone follows startBroken when the job's file is as it was before. A
	// client may have been told meanwhile that it takes another priority.
	startUndone struct {
		id       int64
		text     string
		priority *int
	}
	// failJob is the answer where the job is to be failed instead; text
	// completes the reason.
	failJob struct{ text string }
	// retryStarts is due some time after startBroken.
	retryStarts struct{}
	// fenceExpired is due when jobs of a former master have ended.
	fenceExpired struct{}
	// childStopped follows Terminated through the mailbox, behind what the child
	// has said.
	childStopped struct{ who *actor.PID }
	// retryAdopt is due some time after a job actor has crashed, that of the
	// attempt start: it may come to a later incarnation, which knows better.
	retryAdopt struct {
		id      int64
		attempt uint64
	}
)

func (j *jobs) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		j.started(ctx)
	case *messages.StartJob:
		j.startJob(ctx, m)
	case *messages.AdoptJob:
		j.adoptJob(ctx, m)
	case *messages.ListActiveJobs:
		ctx.Respond(&messages.ListActiveJobsResult{Request: m.Request, Ids: j.activeIDs()})
	case *messages.ProcessReported:
		j.forward(ctx, m.Id)
	case *messages.BeginOp:
		j.forward(ctx, m.Id)
	case *messages.OrderJob:
		j.forwardOrReturn(ctx, m)
	case *messages.StoreStarted:
		j.sendToJobActors(ctx, m)
	case *ordersAnswered:
		j.answerOrders(ctx, j.active[m.id], m.answers)
	case *messages.GetStartError:
		ctx.Respond(&messages.GetStartErrorResult{Request: m.Request, Text: j.lastStartError})
	case *handshakeEnded:
		if m.started {
			j.consecutiveFailures, j.lastStartError = 0, ""
			j.failedStarts.started(m.id)
		}
		j.handshakeEnded(ctx, m.id)
	case *startFailed:
		j.startFailed(ctx, m)
	case *jobReleased:
		j.jobReleased(ctx, m)
	case *startUndone:
		j.startUndone(ctx, m)
	case *retryStarts:
		j.retryStarts(ctx)
	case *fenceExpired:
		j.fenceExpired(ctx)
	case *actor.Stopping, *actor.Restarting:
		j.stopping = true
	case *actor.Terminated:
		ctx.Send(ctx.Self(), &childStopped{m.Who})
	case *childStopped:
		j.childStopped(ctx, m.who)
	case *retryAdopt:
		j.retryAdopt(ctx, m)
	case *messages.Drain:
		j.draining, j.drainedSent = ctx.Sender(), false
		j.sendDrained(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

func (j *jobs) started(ctx actor.Context) {
	if j.fenced {
		kit.SendAfter(j.config.Env.Clock(), ctx.ActorSystem(), j.config.Fence, ctx.Self(), &fenceExpired{})
	}
	ctx.Request(j.config.Queue, &messages.JobsActorStarted{Incarnation: j.attempt >> 32})
}

func (j *jobs) fenceExpired(ctx actor.Context) {
	adopt := j.adoptAfterFence
	j.fenced, j.adoptAfterFence = false, nil
	for _, id := range adopt {
		j.spawn(ctx, id, nil)
	}
	j.startNext(ctx)
}

func (j *jobs) activeIDs() []int64 {
	ids := make([]int64, 0, len(j.active))
	for id := range j.active {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (j *jobs) startJob(ctx actor.Context, m *messages.StartJob) {
	if j.active[m.Id] != nil {
		return // said twice
	}
	j.active[m.Id] = &activeJob{encoded: m.Encoded}
	j.waiting = append(j.waiting, m)
	j.startNext(ctx)
}

// startNext bounds the starts in flight: more only make each other slow. After a
// start that has failed there is one at a time until one succeeds: several together
// may take more memory or processes than there are left, and fail again together.
func (j *jobs) startNext(ctx actor.Context) {
	most := j.config.MaxStarts
	if j.consecutiveFailures > 0 {
		most = 1
	}
	for len(j.waiting) > 0 && j.starting < most && j.draining == nil && !j.startsPaused && !j.fenced {
		m := j.waiting[0]
		j.waiting = j.waiting[1:]
		j.starting++
		j.active[m.Id].starting = true
		j.spawn(ctx, m.Id, m)
	}
}

func (j *jobs) adoptJob(ctx actor.Context, m *messages.AdoptJob) {
	if j.active[m.Id] != nil {
		return
	}
	j.active[m.Id] = &activeJob{encoded: m.Encoded}
	if j.fenced {
		j.adoptAfterFence = append(j.adoptAfterFence, m.Id)
		return
	}
	j.spawn(ctx, m.Id, nil)
}

func (j *jobs) spawn(ctx actor.Context, id int64, start *messages.StartJob) {
	j.attempt++
	c, attempt, encoded := j.config, j.attempt, j.active[id].encoded
	props := c.Env.Props("job", func() actor.Actor { return newJobActor(c, id, attempt, encoded, start) })
	pid, err := ctx.SpawnNamed(props, fmt.Sprintf("job-%d.%d", id, attempt))
	switch {
	case errors.Is(err, kit.ErrStopping):
		return // the next incarnation asks the queue which jobs were active
	case err != nil:
		panic(fmt.Errorf("spawn the actor of job %d: %w", id, err))
	}
	j.active[id].pid, j.active[id].attempt = pid, attempt
}

func (j *jobs) forward(ctx actor.Context, id int64) {
	if h := j.active[id]; h != nil && h.pid != nil {
		ctx.Forward(h.pid)
		return
	}
	if m, asks := ctx.Message().(*messages.BeginOp); asks {
		ctx.Respond(&messages.BeginOpResult{Request: m.Request, Failure: notRunning(id)})
	}
}

// forwardOrReturn passes a client's order to the job's actor. A job that still
// waits for its start goes back to the queue, and the order behind it; so does an
// order that has crossed with the news of the job's end.
func (j *jobs) forwardOrReturn(ctx actor.Context, order *messages.OrderJob) {
	id := order.Id
	h := j.active[id]
	if h != nil && h.pid != nil {
		j.passOrder(ctx, h, order)
		return
	}
	if h != nil && !slices.ContainsFunc(j.waiting, func(m *messages.StartJob) bool { return m.Id == id }) {
		ctx.Respond(&messages.OrderJobResult{Request: order.Request, Text: adoptingText(id)})
		return
	}
	if h != nil {
		j.waiting = slices.DeleteFunc(j.waiting, func(m *messages.StartJob) bool { return m.Id == id })
		delete(j.active, id)
		ctx.Send(j.config.Queue, &messages.JobReturned{Id: id})
	}
	ctx.RequestWithCustomSender(j.config.Queue, order, ctx.Sender())
}

func notRunning(id int64) *messages.Failure {
	return messages.JobLostFailure(fmt.Sprintf("Job %d is not running here", id))
}

func (j *jobs) sendToJobActors(ctx actor.Context, m any) {
	for _, id := range j.activeIDs() {
		if pid := j.active[id].pid; pid != nil {
			ctx.Send(pid, m)
		}
	}
}

func (j *jobs) handshakeEnded(ctx actor.Context, id int64) {
	if h := j.active[id]; h != nil && h.starting {
		h.starting = false
		j.starting--
		j.startNext(ctx)
		j.sendDrained(ctx)
	}
}

func (j *jobs) jobReleased(ctx actor.Context, m *jobReleased) {
	h := j.active[m.id]
	if h == nil {
		return
	}
	j.handshakeEnded(ctx, m.id)
	delete(j.active, m.id)
	ctx.Stop(h.pid)
	ctx.Send(j.config.Queue, m.event)
	j.answerOrders(ctx, h, m.answers)
	j.returnOrders(ctx, h)
}

// childStopped adopts anew what a crashed job actor had. A job whose actor
// crashes again and again is tried ever more rarely: the fault is ours, and its
// process must not be left unwatched.
func (j *jobs) childStopped(ctx actor.Context, who *actor.PID) {
	if j.stopping {
		return // they go with us; their processes stay
	}
	for id, h := range j.active {
		if h.pid == nil || !h.pid.Equal(who) {
			continue
		}
		j.handshakeEnded(ctx, id)
		h.pid = nil
		j.refuseOrders(ctx, h, adoptingText(id))
		delay := min(time.Second<<min(h.crashes, 6), time.Minute)
		h.crashes++
		j.config.Env.Log().WithFields(logrus.Fields{"job": id, "again": delay}).Error("a job's actor has crashed; the job is adopted again")
		kit.SendAfter(j.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryAdopt{id, h.attempt})
		return
	}
}

func (j *jobs) retryAdopt(ctx actor.Context, m *retryAdopt) {
	if h := j.active[m.id]; h != nil && h.pid == nil && h.attempt == m.attempt {
		j.spawn(ctx, m.id, nil)
	}
}

func (j *jobs) sendDrained(ctx actor.Context) {
	if j.draining != nil && !j.drainedSent && j.starting == 0 {
		ctx.Request(j.draining, &messages.DrainResult{})
		j.drainedSent = true
	}
}
