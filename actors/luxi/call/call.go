// Package call is one request of a client: what serves it asks other actors with a Call, and answers with it. The packages jobs and
// objects beside it serve the methods.
package call

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/config"
	"lockstep/core/query"
	"lockstep/messages"
)

// Timeout bounds the wait for one answer of another actor. It is long enough for a daemon that is still reading
// its disk. A restart of the other actor is handled before that, by asking again.
const Timeout = 60 * time.Second

// sliceWork is the work of a connection's actor between two messages, in steps of about 20 ns: 5 ms.
const sliceWork = 250_000

// Messages of a connection's actor to itself, for the open question with this number.
type (
	// conversationTimeout reports that the question has been open for too long.
	conversationTimeout struct{ request uint64 }
	// proceed begins the next slice of the call. Before it the actor hears that its client has gone, and stops.
	proceed struct{ request uint64 }
	// finished reports that work outside of the actors has ended; see Await.
	finished struct {
		request uint64
		then    func(actor.Context)
	}
)

// Method serves one request. An error means that the request is invalid: the connection answers with it and closes.
// Otherwise the method answers, at once or after it has asked other actors.
type Method func(c *Call, ctx actor.Context, args []json.RawMessage) error

// Call is one request of a client, from its arrival to its answer.
type Call struct {
	Config  *Config
	Session *conn.Session
	Store   *store.Client // sends its requests again by itself after a restart of the store
	Method  string
	By      string          // the user and process that sent the request, "" if unknown
	From    access.Identity // whom the permissions of the request are those of
	Changes string          // in words, for the audit log; "": nothing that it has
	GoesOn  bool            // the call is carried out also if the audit log cannot have it

	// OnTimeout is called instead of a failure when the time of the open question is up; nil: the call fails.
	OnTimeout func(actor.Context)
	// OnDrain is called when the daemon is to end, so that the call ends soon; nil: it ends soon anyway.
	OnDrain func(actor.Context)

	stopTimer func() bool         // stops the timer of the open question; nil: no question was asked
	next      func(actor.Context) // the next slice; see Later
	reserved  int                 // bytes of memory for the answer, at least
	ended     bool                // the client has its answer, and what the store answers later is dropped
}

// Ended reports whether the client has its answer.
func (c *Call) Ended() bool { return c.ended }

// Receive handles the messages that the call has sent to itself. It reports whether the message is one of them. Those of a former call
// are dropped.
func (c *Call) Receive(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *proceed:
		if c.Session.IsOpen(m.request) {
			c.next(ctx)
		}
	case *finished:
		if c.Session.IsOpen(m.request) {
			m.then(ctx)
		}
	case *conversationTimeout:
		if c.Session.IsOpen(m.request) {
			c.timedOut(ctx)
		}
	default:
		return false
	}
	return true
}

// Drain makes the call end soon, if it is of a kind that can.
func (c *Call) Drain(ctx actor.Context) {
	if c.OnDrain != nil {
		c.OnDrain(ctx)
	}
}

// Ask sends a question, of which Timeout bounds the duration. Answers of type A go to then.
func Ask[A conn.Answer](c *Call, ctx actor.Context, q conn.Question, then func(actor.Context, A)) {
	conn.Ask(ctx, &c.Session.Conversation, q, then)
	c.SetTimer(ctx, Timeout)
}

// fallible is an answer that may say that the question failed.
type fallible interface {
	conn.Answer
	GetFailure() *messages.Failure
}

// AskFallible is Ask for answers with a failure, which becomes the answer to the client.
func AskFallible[A fallible](c *Call, ctx actor.Context, q conn.Question, then func(actor.Context, A)) {
	Ask(c, ctx, q, func(ctx actor.Context, a A) {
		if f := a.GetFailure(); f != nil {
			c.Fail(ctx, f)
			return
		}
		then(ctx, a)
	})
}

// Begin begins work for which the connection's actor sends no question: the client of the store asks, or no actor is asked. Timeout
// bounds it. A repeated answer to the last question is dropped.
func (c *Call) Begin(ctx actor.Context) {
	c.Session.Begin()
	c.SetTimer(ctx, Timeout)
}

// Read reads a file and passes it to then, unless the call ends first.
func (c *Call) Read(ctx actor.Context, op, path string, then func(actor.Context, *messages.ReadFileResult)) {
	c.Store.Read(ctx, op, path, func(ctx actor.Context, m *messages.ReadFileResult) {
		if !c.ended {
			then(ctx, m)
		}
	})
}

// SetTimer bounds how long the open question stays open from now on.
func (c *Call) SetTimer(ctx actor.Context, d time.Duration) {
	if c.stopTimer != nil {
		c.stopTimer()
	}
	c.stopTimer = kit.SendAfter(c.Config.Env.Clock(), ctx.ActorSystem(), d, ctx.Self(), &conversationTimeout{c.Session.Number()})
}

func (c *Call) timedOut(ctx actor.Context) {
	if c.OnTimeout != nil {
		c.OnTimeout(ctx)
		return
	}
	if c.next != nil {
		text := fmt.Sprintf("%s takes longer than %d s: ask with simpler patterns, or about fewer jobs", c.Method, Timeout/time.Second)
		c.Fail(ctx, messages.GenericFailure(text))
		return
	}
	c.Fail(ctx, messages.GenericFailure("The daemon is too busy to answer "+c.Method+"; "+
		"for a submission, look at the list of jobs before you send it again"))
}

// end stops the timer. Each answer to the client ends the call.
func (c *Call) end() {
	c.ended, c.next, c.OnTimeout, c.OnDrain = true, nil, nil, nil // what is left to do has the whole answer
	if c.stopTimer != nil {
		c.stopTimer()
		c.stopTimer = nil
	}
}

// ErrNoMemory is the answer instead of one that becomes too large while the client has other large ones.
const ErrNoMemory = "The daemon is too busy to make this answer: other answers of this user have all the memory that there is; try again"

// Memory is asked for in steps.
const (
	reserveMin  = 64 << 10 // what is smaller is counted when it is sent
	reserveStep = 256 << 10
)

// Reserve asks for memory for an answer that has this size so far, or will have. Without it the client gets an error, and the result is
// false.
func (c *Call) Reserve(ctx actor.Context, size int) bool {
	if size <= max(c.reserved, reserveMin) {
		return true
	}
	if c.reserved = size + reserveStep; c.Session.Reserve(c.reserved) {
		return true
	}
	c.Fail(ctx, messages.GenericFailure(ErrNoMemory))
	return false
}

// Answer ends the call and answers with a frame, in parts.
func (c *Call) Answer(ctx actor.Context, parts ...[]byte) {
	c.end()
	c.Session.Answer(ctx, parts...)
}

// Succeed ends the call and answers with a result.
func (c *Call) Succeed(ctx actor.Context, result any) {
	c.end()
	c.Session.Succeed(ctx, result)
}

// Fail ends the call and answers with a Ganeti error. Only lockstep's own calls have the details: an error of Ganeti's calls has Ganeti's
// arguments. One that says that the user may not do this is in the audit log first.
func (c *Call) Fail(ctx actor.Context, f *messages.Failure) {
	if f.Code == messages.NotPermitted && c.Config.Audit != nil {
		c.deny(ctx, f)
		return
	}
	c.fail(ctx, f)
}

func (c *Call) fail(ctx actor.Context, f *messages.Failure) {
	c.end()
	if f.Details != nil && !strings.HasPrefix(c.Method, "Lockstep") {
		f = &messages.Failure{Class: f.Class, Text: f.Text, Code: f.Code}
	}
	c.Session.Fail(ctx, f)
}

// Refuse answers that the request is invalid, and closes the connection.
func (c *Call) Refuse(ctx actor.Context, err error) {
	c.end()
	c.Session.Refuse(ctx, err)
}

// Slice is the work that may be done before the next message.
func (c *Call) Slice() int { return cmp.Or(c.Config.SliceWork, sliceWork) }

// Later continues the work after the messages that have arrived, unless the call ends before.
func (c *Call) Later(ctx actor.Context, next func(actor.Context)) {
	if c.ended {
		return
	}
	c.next = next
	ctx.Send(ctx.Self(), &proceed{c.Session.Number()})
}

// Await begins work outside of the actors. Its end calls what Await returns, on any goroutine, with what the connection's actor is to do
// then, unless the call has ended.
func (c *Call) Await(ctx actor.Context) func(then func(actor.Context)) {
	c.Begin(ctx)
	number, self, root := c.Session.Number(), ctx.Self(), ctx.ActorSystem().Root
	return func(then func(actor.Context)) { root.Send(self, &finished{number, then}) }
}

// Admit takes memory for an answer of this size so far. If the answer is too large, or there is no memory, the client gets an error, and
// the result is false.
func (c *Call) Admit(ctx actor.Context, size int) bool {
	if size > query.AnswerMax {
		c.Fail(ctx, messages.Generic(query.ErrTooLarge))
		return false
	}
	return c.Reserve(ctx, size)
}

// FailQuery answers that a query is invalid (queue.md 1.3).
func (c *Call) FailQuery(ctx actor.Context, err error) { c.Fail(ctx, queryFailure(err)) }

// queryFailure is Ganeti's error for an invalid query (queue.md 1.3).
func queryFailure(err error) *messages.Failure {
	var unknown *query.UnknownFields
	var field *query.FieldError
	var tooMuch *query.FilterTooExpensive
	var missing *config.NoSuchObject
	switch {
	case errors.As(err, &unknown):
		return messages.PrereqFailure(messages.WrongInput, err.Error())
	case errors.As(err, &field), errors.As(err, &tooMuch):
		return messages.ParameterFailure(err.Error())
	case errors.As(err, &missing):
		return messages.PrereqFailure(messages.UnknownEntity, err.Error())
	}
	return messages.Generic(err)
}
