package luxi

import (
	"encoding/json"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/audit"
	"lockstep/actors/calendar"
	"lockstep/actors/confdkey"
	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/distributor"
	"lockstep/actors/conn"
	"lockstep/actors/features"
	"lockstep/actors/filters"
	"lockstep/actors/grants"
	"lockstep/actors/inquirer"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/luxi/call"
	"lockstep/actors/luxi/jobs"
	"lockstep/actors/luxi/objects"
	"lockstep/actors/opcodes"
	"lockstep/actors/queuecopy"
	"lockstep/actors/scheduler"
	"lockstep/actors/sessions"
	"lockstep/actors/store"
	"lockstep/core/access"
	coreaudit "lockstep/core/audit"
	"lockstep/messages"
)

// connection serves one client, one request at a time: it reads requests, dispatches them by method, and hands answers
// of other actors to the current call.
type connection struct {
	config  Config
	session *conn.Session
	store   *store.Client
	jobs    *jobs.Client
	current *call.Call // the last request; before the first one a call without method
	// deferred is the request that waits for the first grants; nil: none does.
	deferred *conn.Received
}

// newConnection makes the actor of a connection. number is unique in its incarnation of the gateway.
func newConnection(c Config, client conn.Conn, number uint32) *connection {
	x := &connection{config: c, session: conn.NewSession(client, c.Env.Log()), store: store.NewClient(c.Store, number)}
	x.jobs = jobs.NewClient(&x.config)
	x.current = &call.Call{Config: &x.config, Session: x.session, Store: x.store}
	return x
}

func (c *connection) Receive(ctx actor.Context) {
	if c.store.Handle(ctx) || c.current.Receive(ctx) || c.jobs.Receive(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.store.Connect(ctx)
		c.session.Serve(ctx)
	case *conn.Received:
		c.received(ctx, m)
	case *conn.Refused:
		c.current.Refuse(ctx, m.Err)
	case *conn.Closed:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.session.Close()
	case *messages.QueueStarted:
		c.queueStarted(ctx)
	case *messages.LocksStarted:
		c.session.Restarted(ctx, conn.CoreRestart)
		c.jobs.CoreStarted(ctx)
	case *inquirer.Started:
		c.session.Restarted(ctx, conn.InquirerRestart)
	case *queuecopy.Started:
		c.session.Restarted(ctx, conn.CopierRestart)
	case *audit.Started:
		c.session.Restarted(ctx, conn.AuditRestart)
	case *messages.SubmitJobsResult, *messages.ListJobsResult, *messages.SubscribeJobResult, *messages.GetQueueStatusResult,
		*messages.OrderJobResult, *messages.OrderJobsResult, *messages.ArchiveJobsResult, *messages.SetDrainResult, *messages.GetSerialResult,
		*messages.BeginOpResult, *messages.IdentifyJobResult, *messages.AwaitJobsResult,
		*messages.ListDependenciesResult, *messages.ExplainJobsResult, *messages.GetRunSlotsResult, *scheduler.Snapshot,
		*messages.ChangeFilterResult, *messages.ListFiltersResult, *filters.JobsTaken,
		*messages.EditConfigResult, *clusterconfig.ConfigPublished,
		*clusterconfig.ResolveForeignResult, *clusterconfig.CheckForeignResult,
		*messages.GetNodesResult, *messages.ChangeNodesResult, *messages.CheckNodesResult,
		*messages.GetStartErrorResult, *messages.GetFailingWritesResult,
		*distributor.GetNodesResult, *queuecopy.GetNodesResult, *queuecopy.AwaitResult, *inquirer.AskResult,
		*locks.OperateResult, *confdkey.Rotated, *sessions.CallResult, *grants.ChangeResult, *grants.ListResult, *features.AskResult,
		*calendar.ChangeResult, *calendar.ListResult, *calendar.SummarizeResult,
		*audit.Recorded, *audit.LookResult:
		c.session.Answered(ctx, m.(conn.Answer))
	case *messages.CheckSubmissionResult:
		c.submissionLost(ctx, m)
	case *opcodes.Changed:
		c.config.Catalogue = m.Catalogue
	case *grants.Changed:
		c.grantsChanged(ctx, m)
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
	by, from := m.By, m.From
	if m.Forwarded {
		by, from = request.User, access.DecodeForwarded(request.From, request.User)
	}
	c.current = &call.Call{Config: &c.config, Session: c.session, Store: c.store, Method: request.Method, By: by, From: from}
	c.current.Changes, _ = coreaudit.Change(request.Method, request.Args)
	c.current.GoesOn = coreaudit.GoesOn(request.Method, request.Args)
	if refusal := c.config.Policy.Method(from, request.Method, request.Args); refusal != nil {
		c.refused(ctx, m, refusal)
		return
	}
	c.jobs.Comes(m.Marker)
	c.current.Record(ctx, func(ctx actor.Context) { c.begin(ctx, m, request.Args) })
}

// begin serves the current call, which the audit log has if it belongs there.
func (c *connection) begin(ctx actor.Context, m *conn.Received, args []json.RawMessage) {
	known, err := c.serve(ctx, args)
	var refusal *access.Refusal
	switch {
	case errors.As(err, &refusal):
		c.refused(ctx, m, err) // with the place of the opcode
	case !known:
		text := "Unable to parse LUXI request method: Invalid string value for type LuxiReq: " + call.Quote(c.current.Method)
		c.current.Refuse(ctx, errors.New(text))
	case err != nil:
		c.current.Refuse(ctx, err)
	}
}

// refused answers a request that the policy does not permit. While the grants are not known yet, the request waits for them.
func (c *connection) refused(ctx actor.Context, m *conn.Received, refusal error) {
	if c.config.GrantsUnknown {
		c.deferred = m
		return
	}
	c.current.Fail(ctx, messages.PrereqFailure(messages.NotPermitted, refusal.Error()))
}

// grantsChanged takes other grants. The request that has waited for the first ones is judged again.
func (c *connection) grantsChanged(ctx actor.Context, m *grants.Changed) {
	c.config.Policy.Grants, c.config.GrantsUnknown = m.Grants, false
	if waiting := c.deferred; waiting != nil {
		c.deferred = nil
		c.received(ctx, waiting)
	}
}

// serve hands the current call to the package that has its method. known is false if there is no such method.
func (c *connection) serve(ctx actor.Context, args []json.RawMessage) (known bool, err error) {
	if serve, own := methods[c.current.Method]; own {
		return true, serve(c.current, ctx, args)
	}
	if known, err = c.jobs.Serve(c.current, ctx, args); known {
		return known, err
	}
	return objects.Serve(c.current, ctx, args)
}

// queueStarted handles a restart of the queue. The queue loses the question that it was handling, but none of its
// mailbox. A submission is not sent again: the queue is asked whether it has the submission.
func (c *connection) queueStarted(ctx actor.Context) {
	c.jobs.QueueStarted(ctx)
	if undecided := c.session.Restarted(ctx, conn.QueueRestart); undecided {
		ctx.Request(c.config.Queue, &messages.CheckSubmission{Request: c.session.Number()})
	}
}

// submissionLost ends a submission that the restarted queue does not have: whether its former incarnation recorded the
// jobs is unknown.
func (c *connection) submissionLost(ctx actor.Context, m *messages.CheckSubmissionResult) {
	if c.session.IsOpen(m.Request) {
		c.current.Fail(ctx, messages.GenericFailure("The queue has restarted while it had your "+c.current.Method+
			" in hand: look at the list of jobs before you send it again"))
	}
}

// drain ends an idle connection. The current request is answered first, soon if it waits for nodes. A client
// that waits for a job gets the job's present state, and waits on in the next daemon.
func (c *connection) drain(ctx actor.Context) {
	c.session.Drain(ctx)
	c.current.Drain(ctx)
}
