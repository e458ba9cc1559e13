package luxi

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/messages"
)

// answerTimeout bounds the wait for one answer of another actor. It is long enough for a daemon that is still reading
// its disk. A restart of the other actor is handled before that, by asking again.
const answerTimeout = 60 * time.Second

// conversationTimeout reports that the question with this number has been open for too long.
type conversationTimeout struct{ request uint64 }

// call is one request of a client, from its arrival to its answer.
type call struct {
	config  *Config
	session *conn.Session
	store   *store.Client // sends its requests again by itself after a restart of the store
	method  string
	by      string // the user and process that sent the request, "" if unknown

	pending   *pendingEvents      // of the connection
	origin    *origin             // of the connection
	wait      *waitCall           // nil: the request is not a WaitForJobChange, or has ended
	stopTimer func() bool         // stops the timer of the open question; nil: no question was asked
	asksNodes bool                // the open question is one to nodes
	next      func(actor.Context) // the next slice; see later
	reserved  int                 // bytes of memory for the answer, at least
	ended     bool                // the client has its answer, and what the store answers later is dropped
}

// ask sends a question, of which answerTimeout bounds the duration. Answers of type A go to then.
func ask[A conn.Answer](c *call, ctx actor.Context, q conn.Question, then func(actor.Context, A)) {
	conn.Ask(ctx, &c.session.Conversation, q, then)
	c.setTimer(ctx, answerTimeout)
}

// fallible is an answer that may say that the question failed.
type fallible interface {
	conn.Answer
	GetFailure() *messages.Failure
}

// askFallible is ask for answers with a failure, which becomes the answer to the client.
func askFallible[A fallible](c *call, ctx actor.Context, q conn.Question, then func(actor.Context, A)) {
	ask(c, ctx, q, func(ctx actor.Context, a A) {
		if f := a.GetFailure(); f != nil {
			c.fail(ctx, f)
			return
		}
		then(ctx, a)
	})
}

// beginStoreAccess opens a question to the store, whose client sends it.
func (c *call) beginStoreAccess(ctx actor.Context) {
	c.session.Begin()
	c.setTimer(ctx, answerTimeout)
}

// read reads a file, unless the call ends first.
func (c *call) read(ctx actor.Context, op, path string, then func(actor.Context, *messages.ReadFileResult)) {
	c.store.Read(ctx, op, path, func(ctx actor.Context, m *messages.ReadFileResult) {
		if !c.ended {
			then(ctx, m)
		}
	})
}

// setTimer bounds how long the open question stays open from now on.
func (c *call) setTimer(ctx actor.Context, d time.Duration) {
	if c.stopTimer != nil {
		c.stopTimer()
	}
	c.stopTimer = kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), d, ctx.Self(), &conversationTimeout{c.session.Number()})
}

func (c *call) timedOut(ctx actor.Context) {
	switch {
	case c.wait != nil:
		c.wait.timedOut(ctx)
		return
	case c.pending.awaited:
		c.answerEvents(ctx)
		return
	}
	if c.next != nil {
		text := fmt.Sprintf("%s takes longer than %d s: ask with simpler patterns, or about fewer jobs", c.method, answerTimeout/time.Second)
		c.fail(ctx, messages.GenericFailure(text))
		return
	}
	if c.asksNodes {
		c.fail(ctx, messages.GenericFailure("Not all nodes have answered "+c.method+" in time; ask again"))
		return
	}
	c.fail(ctx, messages.GenericFailure("The daemon is too busy to answer "+c.method+"; "+
		"for a submission, look at the list of jobs before you send it again"))
}

// end stops the timer. Each answer to the client ends the call.
func (c *call) end() {
	c.ended, c.wait, c.next = true, nil, nil // what is left to do has the whole answer
	if c.stopTimer != nil {
		c.stopTimer()
		c.stopTimer = nil
	}
}

// errNoMemory is the answer instead of one that becomes too large while the client has other large ones.
const errNoMemory = "The daemon is too busy to make this answer: other answers of this user have all the memory that there is; try again"

// Memory is asked for in steps.
const (
	reserveMin  = 64 << 10 // what is smaller is counted when it is sent
	reserveStep = 256 << 10
)

// reserve asks for memory for an answer that has this size so far, or will have. Without it the client gets an error.
func (c *call) reserve(ctx actor.Context, size int) bool {
	if size <= max(c.reserved, reserveMin) {
		return true
	}
	if c.reserved = size + reserveStep; c.session.Reserve(c.reserved) {
		return true
	}
	c.fail(ctx, messages.GenericFailure(errNoMemory))
	return false
}

// answer answers with a frame, in parts.
func (c *call) answer(ctx actor.Context, parts ...[]byte) {
	c.end()
	c.session.Answer(ctx, parts...)
}

// succeed answers with a result.
func (c *call) succeed(ctx actor.Context, result any) {
	c.end()
	c.session.Succeed(ctx, result)
}

// fail answers with a Ganeti error.
func (c *call) fail(ctx actor.Context, f *messages.Failure) {
	c.end()
	c.session.Fail(ctx, f)
}

// refuse answers that the request is invalid, and closes the connection.
func (c *call) refuse(ctx actor.Context, err error) {
	c.end()
	c.session.Refuse(ctx, err)
}
