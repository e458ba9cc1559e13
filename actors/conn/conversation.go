package conn

import (
	"github.com/asynkron/protoactor-go/actor"
)

// Restarts is a set of actors, by what announces their restart. An actor that restarts loses the question that it was handling.
type Restarts uint8

// The restarts that a connection's actor hears of.
const (
	// QueueRestart is announced by QueueStarted.
	QueueRestart Restarts = 1 << iota
	// CoreRestart is announced by LocksStarted. Locks, scheduler, filters and configuration restart together.
	CoreRestart
	// InquirerRestart is announced by inquirer.Started.
	InquirerRestart
	// CopierRestart is announced by queuecopy.Started.
	CopierRestart
	// AuditRestart is announced by audit.Started.
	AuditRestart
)

// Question is a message to one actor that is to be answered, with what happens if that actor restarts before its answer.
type Question struct {
	To *actor.PID
	// Message makes the message. It carries the number of the question; so does each answer.
	Message func(number uint64) any
	// LostBy are the restarts that can lose the question.
	LostBy Restarts
	// Once: the question is not sent again after such a restart, because it may have had an effect.
	Once bool
}

// Answer is a message that answers a Question. GetRequest is the number of that question.
type Answer interface{ GetRequest() uint64 }

// Conversation is the part of an actor that asks other actors on behalf of one client. At most one question is open.
// A question stays open, and each answer with its number counts, until the next question or End. Late answers are
// dropped. The zero value has no open question. It is no kit.Asker, because a question has many answers, and may be one that must
// not be sent twice (Once).
type Conversation struct {
	// number is that of the open question. It grows with each question and each End, so that no two questions of one
	// actor share a number.
	number uint64
	open   Question
	// answered takes the answers to the open question. nil: no question is open.
	answered func(ctx actor.Context, answer Answer)
}

// Ask sends a question and makes it the open one. Each answer of type A goes to answered.
func Ask[A Answer](ctx actor.Context, c *Conversation, q Question, answered func(ctx actor.Context, answer A)) {
	c.begin(q)
	c.answered = func(ctx actor.Context, answer Answer) {
		if a, ok := answer.(A); ok {
			answered(ctx, a)
		}
	}
	c.send(ctx)
}

// Begin opens a question that is sent elsewhere and repeated there, as a store.Client does. No answer arrives here.
func (c *Conversation) Begin() {
	c.begin(Question{})
	c.answered = func(actor.Context, Answer) {}
}

func (c *Conversation) begin(q Question) {
	c.number++
	c.open = q
}

func (c *Conversation) send(ctx actor.Context) { ctx.Request(c.open.To, c.open.Message(c.number)) }

// Answered hands an answer to the open question if it has that question's number.
func (c *Conversation) Answered(ctx actor.Context, answer Answer) {
	if c.IsOpen(answer.GetRequest()) {
		c.answered(ctx, answer)
	}
}

// Restarted sends the open question again if the restart can have lost it. It reports true, and sends nothing, if the
// question must not be sent twice.
func (c *Conversation) Restarted(ctx actor.Context, by Restarts) (undecided bool) {
	if !c.Open() || c.open.LostBy&by == 0 {
		return false
	}
	if c.open.Once {
		return true
	}
	c.send(ctx)
	return false
}

// StopResending keeps the question open, without sending it again. It is for an answer that is used while the
// conversation continues with the store.
func (c *Conversation) StopResending() { c.open.LostBy = 0 }

// End closes the open question: an answer to it is dropped from then on.
func (c *Conversation) End() {
	c.number++
	c.open, c.answered = Question{}, nil
}

// Open reports whether a question is open, whose answer has not come.
func (c *Conversation) Open() bool { return c.answered != nil }

// Number is the number of the open question.
func (c *Conversation) Number() uint64 { return c.number }

// IsOpen reports whether the question with this number is open.
func (c *Conversation) IsOpen(number uint64) bool { return c.Open() && number == c.number }
