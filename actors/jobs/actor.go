// Package jobs has two kinds of actors: the jobs actor, and one job actor for each active
// job.
//
// The jobs actor owns the list of active jobs and the number of starts in flight. It starts
// jobs (StartJob), adopts jobs (AdoptJob) and passes client orders on (OrderJob). For each
// job it sends the queue exactly one of JobEnded and JobReturned.
//
// A job actor owns one job process: its handshake, its end, and the job file while no
// process may write that file.
//
// If a job actor crashes, only its job is affected: the jobs actor adopts the job from its
// file. If the jobs actor crashes, confirmed processes go on: the queue sends AdoptJob for
// each active job.
package jobs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/queuecopy"
	"lockstep/messages"
)

// Config has the neighbours, ports and limits of the actors that own the active jobs. MaxStarts is the maximum number of handshakes in
// flight.
//
// In a cluster (design.md "Master"), Leads reports whether this node is certainly the master, and
// Replicator receives what processes write. Until Fence has passed, the actors start no
// process and take none for dead, because jobs of a former master may still run. Without a
// cluster all three are zero.
type Config struct {
	Env        *kit.Env
	Store      *actor.PID
	Queue      *actor.PID
	Scheduler  *actor.PID
	Processes  Processes
	Accounts   Accounts // asked for jobs of other users than the daemon's only
	MaxStarts  int
	RetryLimit RetryLimit
	GanetiLog  bool // entries of logs have types that Ganeti's daemon reads

	Leads      func() bool
	Replicator *actor.PID
	Fence      time.Duration

	// Copier sends the queue to other nodes of a Ganeti cluster. nil: there is none.
	QueueCopy *actor.PID
}

// mayPermit reports whether this node may give processes their permission: only a node that
// is certainly the master may.
func (c Config) mayPermit() bool { return c.Leads == nil || c.Leads() }

// Props describes the jobs actor, which has a child for each job that has or gets a process. A job actor that crashes is stopped, not
// restarted: the jobs actor spawns a new one, which reads the job's file.
func Props(c Config) *actor.Props {
	if c.RetryLimit == (RetryLimit{}) {
		c.RetryLimit = DefaultRetryLimit()
	}
	return kit.NumberedProps(c.Env, "jobs", func(incarnation uint64) actor.Actor {
		return &jobs{
			config:       c,
			failedStarts: failedStarts{limit: c.RetryLimit},
			attempt:      incarnation << 32,
			lastOrder:    incarnation << 32,
			active:       map[int64]*activeJob{},
			callOffs:     map[uint64]*callOff{},
			accounts:     accountFinds{last: incarnation << 32, asked: map[uint64]*messages.StartJob{}, waits: map[int64]accountWait{}},
			fenced:       c.Fence > 0,
		}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Stop})))
}

type jobs struct {
	config              Config
	attempt             uint64 // last number used; the upper 32 bits are the incarnation
	lastOrder           uint64 // last number of an order; the upper 32 bits are the incarnation
	active              map[int64]*activeJob
	callOffs            map[uint64]*callOff // by number of an order
	accounts            accountFinds
	waiting             []*messages.StartJob // jobs without a process; the first one starts when a handshake ends
	starting            int
	startsPaused        bool         // no process is started before retryStarts
	lastStartError      string       // why the last start failed; "" if it succeeded
	failedStarts        failedStarts // jobs whose last start failed
	fenced              bool         // jobs of a former master may still run
	adoptAfterFence     []int64      // jobs to adopt after the fence
	consecutiveFailures int          // starts that failed in a row
	draining            *actor.PID   // sender of Drain; nil: not draining. No process is started while draining
	drainedSent         bool         // DrainResult was sent
	stopping            bool
}

// activeJob is one entry of the list. pid is nil while the job waits for its start. encoded
// is the job as the queue sent it.
type activeJob struct {
	pid       *actor.PID
	encoded   []byte
	program   messages.JobProgram
	retryLost []int32 // as in messages.AdoptJob
	attempt   uint64
	starting  bool
	crashes   int
	orders    map[uint64]*clientOrder // open client orders, by number
	// beginsNothing: the job's process is being ended, or has ended.
	beginsNothing bool
	failing       *messages.FailingWrite // nil: the job's file can be written, as far as it is known
	readerSince   int64                  // since when its output waits for its reader, in microseconds since 1970; 0: it does not
}

// Messages from a job actor to the jobs actor.
type (
	// handshakeEnded ends a start in flight. started: the process has its permission.
	handshakeEnded struct {
		id      int64
		started bool
	}
	// startFailed ends a start in flight that gave no process its permission.
	startFailed struct {
		id   int64
		text string
	}
	// jobReleased ends an active job. event goes to the queue, followed by the answers to
	// clients, so that a client that has its answer finds the job ended.
	jobReleased struct {
		id      int64
		event   any
		answers []*messages.OrderJobResult
	}
	// startUndone follows startFailed, or a start that was called off, or the end of an adopted process
	// that did not begin the job, when the job's file names no process. encoded is its content; nil: it
	// has not changed. The priority may differ, because a client may have set another one meanwhile.
	startUndone struct {
		id        int64
		encoded   []byte
		calledOff bool
		priority  *int
	}
	// writesFail says that the file of a job cannot be written or read now. write is nil when
	// that is over.
	writesFail struct {
		id    int64
		write *messages.FailingWrite
	}
	// readerWait says since when the output of a job waits for its reader, in microseconds since 1970; 0: it does not.
	readerWait struct{ id, since int64 }
	// failJob answers startUndone if the job fails instead of going back to the queue. text
	// completes the reason.
	failJob struct{ text string }
	// retryStarts is a timer after startFailed.
	retryStarts struct{}
	// fenceExpired is a timer: jobs of a former master have ended.
	fenceExpired struct{}
	// childStopped is sent by the jobs actor to itself on Terminated, so that it follows
	// the messages of that child.
	childStopped struct{ who *actor.PID }
	// retryAdopt is a timer after the crash of the job actor with number attempt. A later
	// incarnation ignores it.
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
	case *messages.IdentifyJob:
		j.forward(ctx, m.Id)
	case *messages.AwaitJobCleanup:
		j.forward(ctx, m.Id)
	case *messages.OrderJob:
		j.forwardOrReturn(ctx, m)
	case *messages.CallOff:
		j.callOff(ctx, m)
	case *beginsNothing:
		j.beginsNothing(m.id)
	case *beginSettled:
		j.settleCallOffs(ctx, m.id, m.number)
	case *callOffExpired:
		j.answerCallOff(ctx, m.number)
	case *messages.StoreStarted, *queuecopy.Started:
		j.sendToJobActors(ctx, m)
	case *ordersAnswered:
		j.answerOrders(ctx, j.active[m.id], m.answers)
	case *AccountsFound:
		j.accountsFound(ctx, m)
	case *messages.GetStartError:
		answer := j.startError(m.Id)
		answer.Request = m.Request
		ctx.Respond(answer)
	case *messages.GetFailingWrites:
		ctx.Respond(&messages.GetFailingWritesResult{Request: m.Request, Writes: j.failingWrites(), Readers: j.readerWaits()})
	case *writesFail:
		j.writesFail(m)
	case *readerWait:
		if h := j.active[m.id]; h != nil {
			h.readerSince = m.since
		}
	case *handshakeEnded:
		if m.started {
			j.consecutiveFailures, j.lastStartError = 0, ""
			j.failedStarts.successes++
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
		return // the job is active already
	}
	j.active[m.Id] = &activeJob{encoded: m.Encoded, program: m.Program, retryLost: m.RetryLost}
	if len(m.RunAs) > 0 {
		j.findAccounts(ctx, m)
		return
	}
	j.waiting = append(j.waiting, m)
	j.startNext(ctx)
}

// startNext keeps the starts in flight at or below MaxStarts, because more starts slow one
// another down. After a failed start only one start is in flight until one succeeds,
// because several together may exceed the memory or processes that are left.
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
	j.active[m.Id] = &activeJob{encoded: m.Encoded, program: m.Program, retryLost: m.RetryLost}
	if j.fenced {
		j.adoptAfterFence = append(j.adoptAfterFence, m.Id)
		return
	}
	j.spawn(ctx, m.Id, nil)
}

func (j *jobs) spawn(ctx actor.Context, id int64, start *messages.StartJob) {
	j.attempt++
	c, attempt, active := j.config, j.attempt, j.active[id]
	props := c.Env.Props("job", func() actor.Actor { return newJobActor(c, id, attempt, active, start) })
	pid, err := ctx.SpawnNamed(props, fmt.Sprintf("job-%d.%d", id, attempt))
	switch {
	case errors.Is(err, kit.ErrStopping):
		return // the queue sends AdoptJob for each active job to the next incarnation
	case err != nil:
		panic(fmt.Errorf("spawn the actor of job %d: %w", id, err))
	}
	j.active[id].pid, j.active[id].attempt = pid, attempt
	j.repeatCallOffs(ctx, id)
}

func (j *jobs) forward(ctx actor.Context, id int64) {
	if h := j.active[id]; h != nil && h.pid != nil {
		ctx.Forward(h.pid)
		return
	}
	switch m := ctx.Message().(type) {
	case *messages.BeginOp:
		ctx.Respond(&messages.BeginOpResult{Request: m.Request, Failure: notRunning(id)})
	case *messages.IdentifyJob:
		ctx.Respond(&messages.IdentifyJobResult{Request: m.Request})
	}
}

// forwardOrReturn passes a client order to the job's actor. A job that waits for its start
// goes back to the queue, followed by the order. The queue also gets back an order for a
// job that is no longer active.
func (j *jobs) forwardOrReturn(ctx actor.Context, order *messages.OrderJob) {
	id := order.Id
	h := j.active[id]
	if h != nil && h.pid != nil {
		j.passOrder(ctx, h, order)
		return
	}
	if h != nil && !j.waitsForStart(id) {
		ctx.Respond(&messages.OrderJobResult{Request: order.Request, Text: adoptingText(id)})
		return
	}
	if h != nil {
		// The job goes back before the order, so that the queue finds it pending when the order comes.
		j.returnWaiting(ctx, id)
	}
	ctx.RequestWithCustomSender(j.config.Queue, order, ctx.Sender())
}

func (j *jobs) waitsForStart(id int64) bool {
	return j.accounts.question(id) != 0 || slices.ContainsFunc(j.waiting, func(m *messages.StartJob) bool { return m.Id == id })
}

// returnWaiting returns a job that waits for its start to the queue.
func (j *jobs) returnWaiting(ctx actor.Context, id int64) {
	delete(j.accounts.asked, j.accounts.question(id))
	j.waiting = slices.DeleteFunc(j.waiting, func(m *messages.StartJob) bool { return m.Id == id })
	delete(j.active, id)
	ctx.Send(j.config.Queue, &messages.JobReturned{Id: id})
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
	j.writesFail(&writesFail{id: m.id})
	// Out of the list before its actor stops, which childStopped would take for a crash.
	delete(j.active, m.id)
	j.failedStarts.forget(m.id)
	ctx.Stop(h.pid)
	// The queue hears of the end before the clients, and before the orders that it gets back: they find the job ended.
	ctx.Send(j.config.Queue, m.event)
	j.answerOrders(ctx, h, m.answers)
	j.returnOrders(ctx, h)
	j.settleCallOffs(ctx, m.id, j.lastOrder)
}

// childStopped adopts the job of a crashed job actor again. The delay grows with each
// crash, without a limit of tries, because the process must stay watched.
func (j *jobs) childStopped(ctx actor.Context, who *actor.PID) {
	if j.stopping {
		return // the children stop with this actor; their processes go on
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
		j.config.Env.Log().WithFields(logrus.Fields{"job": id, "delay": delay}).Error("job actor crashed; adopting its job again")
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
