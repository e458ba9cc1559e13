package luxi

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/opcodes"
	"lockstep/actors/store"
	"lockstep/core/wire"
	"lockstep/messages"
)

// answerTimeout is how long an answer of another actor may take. It bounds the wait
// for a daemon that is still reading its disk; a broken conversation ends by
// other means.
const answerTimeout = 60 * time.Second

// connection serves one client, one request at a time.
type connection struct {
	config Config
	conn   conn.Conn
	store  *store.Client

	method  string
	by      string // who makes the request being served, "" if that is not known
	request uint64 // number of the current conversation, within this actor
	// resend repeats the open question, when somebody has restarted who may have
	// had it in hand; nil for a submission, which must not be asked for twice.
	resend        func(actor.Context)
	lostByRestart restartScope             // with whose restart the question may be lost
	onAnswer      func(actor.Context, any) // takes the answers to it; nil: no request being served
	wait          *jobWait                 // for a job to change
	stopTimer     func() bool              // stops the timer of the current conversation
	closing       bool                     // after the current answer
}

// conversationTimeout ends a conversation that has taken too long.
type conversationTimeout struct{ request uint64 }

func newConnection(c Config, conn conn.Conn, number uint32) *connection {
	return &connection{config: c, conn: conn, store: store.NewClient(c.Store, number)}
}

func (c *connection) Receive(ctx actor.Context) {
	if c.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.store.Connect(ctx)
		c.conn.Serve(ctx.Self())
	case *conn.Received:
		c.received(ctx, m)
	case *conn.Refused:
		c.refuse(ctx, m.Err)
	case *conn.Closed:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.conn.Close()
	case *messages.QueueStarted:
		c.queueStarted(ctx)
	case *messages.LocksStarted: // and with it all of core
		if c.resend != nil && c.lostByRestart&coreRestart != 0 {
			c.resend(ctx)
		}
	case *messages.SubmitJobsResult, *messages.ListJobsResult, *messages.SubscribeJobResult, *messages.BeginOpResult,
		*messages.OrderJobResult, *messages.ArchiveJobsResult, *messages.SetDrainResult, *messages.GetQueueStatusResult, *locks.CallResult,
		*messages.ConfigPublished, *messages.EditConfigResult, *messages.ChangeFilterResult, *messages.ListFiltersResult, *messages.ExplainJobsResult,
		*messages.ListDependenciesResult, *messages.GetNodesResult, *messages.ChangeNodesResult, *messages.CheckNodesResult, *messages.GetStartErrorResult:
		if c.onAnswer != nil {
			c.onAnswer(ctx, m)
		}
	case *messages.CheckSubmissionResult:
		c.submissionLost(ctx, m)
	case *messages.JobChanged:
		c.jobChanged(ctx, m)
	case *opcodes.Changed:
		c.config.Catalogue = m.Catalogue
	case *conversationTimeout:
		c.timedOut(ctx, m)
	case *messages.Drain:
		c.drain(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

func (c *connection) received(ctx actor.Context, m *conn.Received) {
	request, err := wire.DecodeRequest(m.Frame)
	if err != nil {
		c.refuse(ctx, err)
		return
	}
	serve, known := methods[request.Method]
	if !known {
		c.refuse(ctx, errors.New("Unable to parse LUXI request method: Invalid string value for type LuxiReq: "+quote(request.Method)))
		return
	}
	c.method, c.by = request.Method, m.By
	if m.Forwarded {
		c.by = request.User
	}
	if err := serve(c, ctx, request.Args); err != nil {
		c.refuse(ctx, err)
	}
}

// ask begins a conversation: question is sent now, and again to a queue that
// has restarted meanwhile if that is safe. answers gets what comes back for it.
func (c *connection) ask(ctx actor.Context, safe repeatability, question func(ctx actor.Context, request uint64), onAnswer func(actor.Context, any)) {
	c.request++
	number := c.request
	c.onAnswer, c.lostByRestart = onAnswer, queueRestart
	send := func(ctx actor.Context) { question(ctx, number) }
	if safe == repeatable {
		c.resend = send
	}
	c.setTimer(ctx, answerTimeout)
	send(ctx)
}

// repeatability says whether a question may be asked twice.
type repeatability bool

const (
	repeatable repeatability = true
	once       repeatability = false
)

// restartScope are of the queue, or of the actors that are rebuilt together.
type restartScope uint8

const (
	queueRestart restartScope = 1 << iota
	coreRestart
)

func (c *connection) setTimer(ctx actor.Context, d time.Duration) {
	if c.stopTimer != nil {
		c.stopTimer()
	}
	c.stopTimer = kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), d, ctx.Self(), &conversationTimeout{c.request})
}

func (c *connection) timedOut(ctx actor.Context, m *conversationTimeout) {
	switch {
	case m.request != c.request || c.onAnswer == nil:
	case c.wait != nil && c.wait.expired:
		c.answerNoChange(ctx)
	case c.wait != nil:
		c.endWait(ctx)
	default:
		c.fail(ctx, messages.GenericFailure("The daemon is too busy to answer "+c.method+"; "+
			"for a submission, look at the list of jobs before you send it again"))
	}
}

// queueStarted: what the former incarnation had in hand is lost, what it had in
// its mailbox is not. A question that may be asked twice is; of a submission the
// queue is asked whether it has it.
func (c *connection) queueStarted(ctx actor.Context) {
	switch {
	case c.onAnswer == nil || c.lostByRestart&queueRestart == 0:
	case c.resend != nil:
		c.resend(ctx)
	default:
		ctx.Request(c.config.Queue, &messages.CheckSubmission{Request: c.request})
	}
}

func (c *connection) submissionLost(ctx actor.Context, m *messages.CheckSubmissionResult) {
	if c.onAnswer != nil && m.Request == c.request {
		c.fail(ctx, messages.GenericFailure("The queue has restarted while it had your "+c.method+
			" in hand: look at the list of jobs before you send it again"))
	}
}

// drain lets the request being served be answered; a client that merely waits is
// told how things stand, and comes back to the next daemon.
func (c *connection) drain(ctx actor.Context) {
	switch {
	case c.onAnswer == nil:
		ctx.Stop(ctx.Self())
	case c.wait != nil:
		c.closing = true
		c.endWait(ctx)
	default:
		c.closing = true
	}
}

// endConversation ends the current conversation: answers that come later find none.
func (c *connection) endConversation() {
	c.request++
	c.resend, c.onAnswer, c.wait = nil, nil, nil
	if c.stopTimer != nil {
		c.stopTimer()
		c.stopTimer = nil
	}
}

func (c *connection) answer(ctx actor.Context, frame []byte) {
	c.endConversation()
	c.conn.Answer(frame)
	if c.closing {
		ctx.Stop(ctx.Self())
	}
}

// succeed answers the request being served.
func (c *connection) succeed(ctx actor.Context, result any) {
	frame, err := wire.EncodeResult(result)
	if err != nil {
		c.config.Env.Log().WithFields(logrus.Fields{"op": c.method, "err": err}).Error("an answer cannot be encoded")
		c.fail(ctx, messages.ProgrammerFailure("the answer cannot be encoded: "+err.Error()))
		return
	}
	c.answer(ctx, frame)
}

// fail answers with a Ganeti error; the connection stays (queue.md 1.3).
func (c *connection) fail(ctx actor.Context, f *messages.Failure) {
	args := []any{f.Text}
	if f.Code != "" {
		args = append(args, f.Code)
	}
	c.answer(ctx, wire.EncodeError(f.Class, args...))
}

// refuse answers a request that is not one, and closes the connection: what
// follows on it cannot be trusted (queue.md 1.3).
func (c *connection) refuse(ctx actor.Context, err error) {
	c.closing = true
	c.answer(ctx, wire.EncodeParseError("Failed to parse request: "+err.Error()))
}
