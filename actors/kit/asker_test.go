package kit

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

var asked = actor.NewPID("local", "asked")

// numbered is a question or a request for the incarnation, as it was sent.
type numbered struct {
	text   string
	number uint64
}

// outbox records what is sent to the asked actor.
type outbox struct {
	testing.TB
	sent []any
}

func (o *outbox) Request(to *actor.PID, message any) {
	require.Equal(o, asked, to)
	o.sent = append(o.sent, message)
}

// requireSent requires that exactly this was sent since the last call.
func (o *outbox) requireSent(want ...any) {
	o.Helper()
	require.Equal(o, want, o.sent)
	o.sent = nil
}

// asking is an Asker with the answers that its user got.
type asking struct {
	Asker[string]
	*outbox
	answers []string
}

func newAsking(t *testing.T, incarnation uint32) *asking {
	return &asking{Asker: NewAsker[string](asked, incarnation), outbox: &outbox{TB: t}}
}

func (a *asking) ask(text string) {
	a.Ask(a.outbox, func(n uint64) any { return numbered{text, n} },
		func(_ actor.Context, answer string) { a.answers = append(a.answers, text+": "+answer) })
}

// No two questions have the same number, not even two questions of different incarnations of the actor that asks.
func TestAskerNumbersQuestions(t *testing.T) {
	a := newAsking(t, 2)
	a.ask("a")
	a.ask("b")
	a.requireSent(numbered{"a", 2<<32 + 1}, numbered{"b", 2<<32 + 2})

	a.Answered(nil, 1<<32+1, "to a former incarnation")
	require.Empty(t, a.answers)
	a.Answered(nil, 2<<32+2, "yes")
	a.Answered(nil, 2<<32+1, "no")
	require.Equal(t, []string{"b: yes", "a: no"}, a.answers)
}

// Questions wait until the incarnation is known. Each later incarnation gets what is open, once, in the order of the questions.
func TestAskerAsksEachIncarnation(t *testing.T) {
	a := newAsking(t, 1)
	a.Connect(a.outbox, "who?")
	a.ask("a")
	a.ask("b")
	a.ask("c")
	a.requireSent("who?")
	require.Zero(t, a.Epoch())

	first, second, third := numbered{"a", 1<<32 + 1}, numbered{"b", 1<<32 + 2}, numbered{"c", 1<<32 + 3}
	a.Started(a.outbox, 4)
	a.requireSent(first, second, third)
	require.EqualValues(t, 4, a.Epoch())
	a.Answered(nil, second.number, "yes")

	a.Started(a.outbox, 4)
	a.Started(a.outbox, 3)
	require.Empty(t, a.sent, "this incarnation has them, and a former one has no answer to give")
	a.Started(a.outbox, 5)
	a.requireSent(first, third)
	a.ask("d")
	a.requireSent(numbered{"d", 1<<32 + 4})
}

// The incarnation may be announced before the actor asks for it.
func TestAskerThatConnectsLate(t *testing.T) {
	a := newAsking(t, 1)
	a.Started(a.outbox, 1)
	a.Connect(a.outbox, "who?")
	a.ask("a")
	a.requireSent("who?", numbered{"a", 1<<32 + 1})
}

// Two incarnations may both answer a question. The second answer is dropped.
func TestAskerTakesOneAnswer(t *testing.T) {
	a := newAsking(t, 1)
	a.ask("a")
	a.Repeat(a.outbox)
	a.requireSent(numbered{"a", 1<<32 + 1}, numbered{"a", 1<<32 + 1})
	a.Answered(nil, 1<<32+1, "yes")
	a.Answered(nil, 1<<32+1, "no")
	require.Equal(t, []string{"a: yes"}, a.answers)
	a.Repeat(a.outbox)
	require.Empty(t, a.sent)
}

// The function that takes an answer may ask the next question. By then the answered question is no longer open.
func TestAskerAsksWithinAnAnswer(t *testing.T) {
	a := newAsking(t, 1)
	a.Ask(a.outbox, func(n uint64) any { return numbered{"a", n} }, func(actor.Context, string) {
		a.ask("b")
		a.Answered(nil, 1<<32+1, "again")
	})
	a.Answered(nil, 1<<32+1, "yes")
	a.requireSent(numbered{"a", 1<<32 + 1}, numbered{"b", 1<<32 + 2})
	a.Answered(nil, 1<<32+2, "yes")
	require.Equal(t, []string{"b: yes"}, a.answers)
}
