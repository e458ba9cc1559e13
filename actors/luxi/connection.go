package luxi

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/clusterconfig"
	"lockstep/actors/confdkey"
	"lockstep/actors/conn"
	"lockstep/actors/distributor"
	"lockstep/actors/events"
	"lockstep/actors/filters"
	"lockstep/actors/inquirer"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/opcodes"
	"lockstep/actors/queuecopy"
	"lockstep/actors/scheduler"
	"lockstep/actors/sessions"
	"lockstep/actors/store"
	"lockstep/messages"
)

// connection serves one client, one request at a time: it reads requests, dispatches them by method, and hands answers
// of other actors to the current call.
type connection struct {
	config  Config
	session *conn.Session
	store   *store.Client
	pending pendingEvents
	origin  origin
	current *call // the last request; ended if the client has its answer
}

// newConnection makes the actor of a connection. number is unique in its incarnation of the gateway.
func newConnection(c Config, client conn.Conn, number uint32) *connection {
	x := &connection{config: c, session: conn.NewSession(client, c.Env.Log()), store: store.NewClient(c.Store, number)}
	x.current = &call{ended: true, pending: &x.pending, origin: &x.origin}
	return x
}

func (c *connection) Receive(ctx actor.Context) {
	if c.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.store.Connect(ctx)
		c.session.Serve(ctx)
	case *conn.Received:
		c.received(ctx, m)
	case *conn.Refused:
		c.refuse(ctx, m.Err)
	case *conn.Closed:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.session.Close()
	case *messages.QueueStarted:
		c.queueStarted(ctx)
	case *messages.LocksStarted:
		c.session.Restarted(ctx, conn.CoreRestart)
		c.repeatWait(ctx)
	case *inquirer.Started:
		c.session.Restarted(ctx, conn.InquirerRestart)
	case *queuecopy.Started:
		c.session.Restarted(ctx, conn.CopierRestart)
	case *messages.SubmitJobsResult, *messages.ListJobsResult, *messages.SubscribeJobResult, *messages.GetQueueStatusResult,
		*messages.OrderJobResult, *messages.ArchiveJobsResult, *messages.SetDrainResult, *messages.GetSerialResult,
		*messages.BeginOpResult, *messages.IdentifyJobResult, *messages.AwaitJobsResult,
		*messages.ListDependenciesResult, *messages.ExplainJobsResult, *messages.GetRunSlotsResult, *scheduler.Snapshot,
		*messages.ChangeFilterResult, *messages.ListFiltersResult, *filters.JobsTaken,
		*messages.EditConfigResult, *clusterconfig.ConfigPublished,
		*clusterconfig.ResolveForeignResult, *clusterconfig.CheckForeignResult,
		*messages.GetNodesResult, *messages.ChangeNodesResult, *messages.CheckNodesResult,
		*messages.GetStartErrorResult, *messages.GetFailingWritesResult,
		*distributor.GetNodesResult, *queuecopy.GetNodesResult, *queuecopy.AwaitResult, *inquirer.AskResult,
		*locks.OperateResult, *confdkey.Rotated, *sessions.CallResult:
		c.session.Answered(ctx, m.(conn.Answer))
	case *messages.CheckSubmissionResult:
		c.submissionLost(ctx, m)
	case *messages.JobChanged:
		if c.current.wait != nil {
			c.current.wait.changed(ctx, m)
		}
	case *messages.JobStatesChanged:
		c.pending.add(m)
		c.current.eventsArrived(ctx)
	case *events.EventPublished:
		c.pending.addOther(m)
		c.current.eventsArrived(ctx)
	case *events.Gap:
		c.pending.missed = true
		c.current.eventsArrived(ctx)
	case *proceed:
		if c.session.IsOpen(m.request) {
			c.current.next(ctx)
		}
	case *opcodesReloaded:
		if c.session.IsOpen(m.request) {
			c.current.reloaded(ctx, m)
		}
	case *opcodes.Changed:
		c.config.Catalogue = m.Catalogue
	case *conversationTimeout:
		if c.session.IsOpen(m.request) {
			c.current.timedOut(ctx)
		}
	case *messages.Drain:
		c.drain(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

func (c *connection) received(ctx actor.Context, m *conn.Received) {
	request, ok := c.session.Decode(ctx, m)
	if !ok {
		return
	}
	serve, known := methods[request.Method]
	if !known {
		c.refuse(ctx, errors.New("Unable to parse LUXI request method: Invalid string value for type LuxiReq: "+quote(request.Method)))
		return
	}
	by := m.By
	if m.Forwarded {
		by = request.User
	}
	if m.Marker != "" {
		c.origin.marker = m.Marker
	}
	c.current = &call{
		pending: &c.pending,
		origin:  &c.origin,
		config:  &c.config,
		session: c.session,
		store:   c.store,
		method:  request.Method,
		by:      by,
	}
	if err := serve(c.current, ctx, request.Args); err != nil {
		c.refuse(ctx, err)
	}
}

// refuse answers a frame that is not a valid request, and closes the connection.
func (c *connection) refuse(ctx actor.Context, err error) {
	c.current.end()
	c.session.Refuse(ctx, err)
}

// queueStarted handles a restart of the queue. The queue loses the question that it was handling, but none of its
// mailbox. A submission is not sent again: the queue is asked whether it has the submission.
func (c *connection) queueStarted(ctx actor.Context) {
	if c.pending.subscribed {
		ctx.Request(c.config.Queue, &messages.SubscribeAllJobs{})
		c.pending.missed = true
		c.current.eventsArrived(ctx)
	}
	if undecided := c.session.Restarted(ctx, conn.QueueRestart); undecided {
		ctx.Request(c.config.Queue, &messages.CheckSubmission{Request: c.session.Number()})
	}
}

// submissionLost ends a submission that the restarted queue does not have: whether its former incarnation recorded the
// jobs is unknown.
func (c *connection) submissionLost(ctx actor.Context, m *messages.CheckSubmissionResult) {
	if c.session.IsOpen(m.Request) {
		c.current.fail(ctx, messages.GenericFailure("The queue has restarted while it had your "+c.current.method+
			" in hand: look at the list of jobs before you send it again"))
	}
}

// drain ends an idle connection. The current request is answered first, within drainPatience if it waits for nodes. A client
// that waits for a job gets the job's present state, and waits on in the next daemon.
func (c *connection) drain(ctx actor.Context) {
	c.session.Drain(ctx)
	if c.current.wait != nil {
		c.current.wait.expire(ctx)
	}
	if c.current.asksNodes && !c.current.ended {
		c.current.setTimer(ctx, drainPatience)
	}
	c.current.eventsArrived(ctx)
}
