package kit

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
)

// Requester sends a message so that the answer comes back to the same actor as a message. An actor.Context is one.
type Requester interface {
	Request(to *actor.PID, message any)
}

// Asker is the part of an actor that asks one other actor, and asks again when that actor has restarted. A question stays open until its
// first answer, of type A, and is sent again to each later incarnation of the asked actor, which knows nothing of what earlier ones were
// asked. All questions are sent again in their order. The asked actor may get a question twice; the one who asked gets one answer.
//
// An Asker belongs to one incarnation of the actor that asks.
type Asker[A any] struct {
	to    *actor.PID
	last  uint64        // number of the last question; the upper 32 bits are the incarnation of the actor that asks
	open  []question[A] // by number
	holds bool          // questions wait for Started
	epoch uint64        // of the asked actor; see Epoch
}

type question[A any] struct {
	number   uint64
	message  any
	answered func(ctx actor.Context, answer A)
}

// NewAsker returns an Asker that sends questions to the actor to, each at once until Connect. incarnation is that of the actor that asks:
// it is the upper half of the number of each question, so that an answer to a former incarnation is recognised.
func NewAsker[A any](to *actor.PID, incarnation uint32) Asker[A] {
	return Asker[A]{to: to, last: uint64(incarnation) << 32}
}

// Connect asks for the incarnation of the asked actor, which calls for Started. Questions wait for it.
func (a *Asker[A]) Connect(ctx Requester, announce any) {
	a.holds = a.epoch == 0
	ctx.Request(a.to, announce)
}

// Epoch is the incarnation of the asked actor, from 1. 0: not known yet.
func (a *Asker[A]) Epoch() uint64 { return a.epoch }

// Started sends the open questions to an incarnation of the asked actor, unless they were sent to this one or a later one: an
// incarnation may announce itself more than once.
func (a *Asker[A]) Started(ctx Requester, incarnation uint64) {
	if incarnation > a.epoch {
		a.epoch, a.holds = incarnation, false
		a.Repeat(ctx)
	}
}

// Repeat sends the open questions again. It is for a user that does so at each announcement, also a second one by the same incarnation.
func (a *Asker[A]) Repeat(ctx Requester) {
	for _, q := range a.open {
		ctx.Request(a.to, q.message)
	}
}

// Ask sends the question that message makes for a number. answered is called once, with the first answer.
func (a *Asker[A]) Ask(ctx Requester, message func(number uint64) any, answered func(ctx actor.Context, answer A)) {
	a.last++
	q := question[A]{a.last, message(a.last), answered}
	a.open = append(a.open, q)
	if !a.holds {
		ctx.Request(a.to, q.message)
	}
}

// Answered takes the answer to a question. It drops one to a question that is not open.
func (a *Asker[A]) Answered(ctx actor.Context, number uint64, answer A) {
	at, isOpen := slices.BinarySearchFunc(a.open, number, func(q question[A], n uint64) int { return cmp.Compare(q.number, n) })
	if isOpen {
		answered := a.open[at].answered
		a.open = slices.Delete(a.open, at, at+1) // first, because answered may ask
		answered(ctx, answer)
	}
}
