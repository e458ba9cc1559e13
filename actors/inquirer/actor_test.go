package inquirer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/inquirer"
	"lockstep/actors/kittest"
	"lockstep/core/inquiry"
	"lockstep/core/noded"
)

// daemons are calls in progress. The test ends them.
type daemons struct {
	open    []*call
	givenUp []string
}

type call struct {
	of   *daemons
	node string
	sent bool
	done func(inquiry.Answer, bool)
}

func (d *daemons) Ask(q inquiry.Question, done func(inquiry.Answer, bool)) inquirer.Call {
	c := &call{of: d, node: q.Node.Name, done: done}
	d.open = append(d.open, c)
	return c
}

func (c *call) Sent() bool { return c.sent }
func (c *call) GiveUp()    { c.of.givenUp = append(c.of.givenUp, c.node) }

type bench struct {
	*testing.T
	*kittest.Env
	daemons  *daemons
	inquirer *actor.PID
	client   *kittest.Probe
}

func onBench(t *testing.T, places int, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, daemons: &daemons{}, client: e.Probe("client")}
		b.inquirer = e.Start("inquirer", inquirer.Props(inquirer.Config{Env: e.Env, Daemons: b.daemons, Places: places, Clients: []*actor.PID{b.client.PID}}))
		kittest.Expect[*inquirer.Started](b.client)
		f(t, b)
	})
}

func (b *bench) ask(request uint64, nodes ...string) {
	var questions []inquiry.Question
	for _, name := range nodes {
		questions = append(questions, inquiry.Question{Node: noded.Node{Name: name, Address: name}, Request: noded.AskExports()})
	}
	b.client.Ask(b.inquirer, &inquirer.Ask{Request: request, Questions: questions})
	b.Settle()
}

// end ends the calls of a node.
func (b *bench) end(node string, a inquiry.Answer) {
	for _, c := range slices.Clone(b.daemons.open) {
		if c.node == node {
			b.daemons.open = slices.DeleteFunc(b.daemons.open, func(other *call) bool { return other == c })
			c.done(a, false)
		}
	}
	b.Settle()
}

func (b *bench) calls() (nodes []string) {
	for _, c := range b.daemons.open {
		nodes = append(nodes, c.node)
	}
	return nodes
}

func (b *bench) answered() *inquirer.AskResult { return kittest.Expect[*inquirer.AskResult](b.client) }

func TestAnInquiry(t *testing.T) {
	onBench(t, 30, func(t *testing.T, b *bench) {
		b.ask(1, "n1", "n2")
		b.ask(2, "n2")
		require.Equal(t, []string{"n1", "n2"}, b.calls(), "the question is shared")
		b.daemons.open[1].sent = true
		b.ask(3, "n2")
		require.Equal(t, []string{"n1", "n2", "n2"}, b.calls(), "the node may have looked already")
		b.daemons.open = b.daemons.open[:2]
		b.end("n2", inquiry.Answer{Value: []string{"e"}})
		first := b.answered()
		require.EqualValues(t, 2, first.GetRequest())
		require.Equal(t, &inquirer.AskResult{Request: 2, Answers: []inquiry.Answer{{Value: []string{"e"}}}}, first)
		down := errors.New("connection refused")
		b.end("n1", inquiry.Answer{Err: down})
		require.Equal(t, &inquirer.AskResult{Request: 1, Answers: []inquiry.Answer{{Err: down}, {Value: []string{"e"}}}}, b.answered())
		lines := b.Logged("node does not answer a query; its values are missing")
		require.Len(t, lines, 1)
		require.Equal(t, []any{"n1", "export_list", down}, []any{lines[0]["node"], lines[0]["op"], lines[0]["err"]})
		b.ask(4, "n1")
		b.end("n1", inquiry.Answer{Value: []string{}})
		require.Len(t, b.Logged("node answers queries again"), 1)
	})
}

// A silent node does not hold up other nodes: its place goes to another call, and its asker gets the other answers in time.
func TestSilentNodes(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.ask(1, "silent", "n2")
		require.Equal(t, []string{"silent"}, b.calls())
		b.Advance(inquiry.PlaceMax)
		require.Equal(t, []string{"silent"}, b.daemons.givenUp)
		require.Equal(t, []string{"silent", "n2"}, b.calls())
		b.end("n2", inquiry.Answer{Value: []string{}})
		require.Equal(t, []inquiry.Answer{{Err: inquiry.ErrGivenUp}, {Value: []string{}}}, b.answered().Answers)
		b.end("silent", inquiry.Answer{Err: errors.New("canceled")})

		b.ask(2, "silent")
		b.Advance(inquiry.AnswerMax)
		require.Equal(t, []inquiry.Answer{{Err: inquiry.ErrLate}}, b.answered().Answers)
		require.Len(t, b.Logged("node does not answer a query; its values are missing"), 2)
		b.end("silent", inquiry.Answer{Err: errors.New("canceled")})
		b.ask(3, "silent")
		require.Equal(t, []string{"silent"}, b.calls(), "it has a place again")
	})
}

// After a crash nothing is known. Ends of old calls have no effect on new ones with the same number.
func TestACrash(t *testing.T) {
	onBench(t, 30, func(t *testing.T, b *bench) {
		b.ask(1, "n1")
		b.Crash(b.inquirer)
		b.Advance(time.Second)
		kittest.Expect[*inquirer.Started](b.client)
		b.ask(2, "n1")
		require.Equal(t, []string{"n1", "n1"}, b.calls())
		b.daemons.open[0].done(inquiry.Answer{Value: []string{"old"}}, false)
		b.Settle()
		b.daemons.open[1].done(inquiry.Answer{Value: []string{"new"}}, false)
		b.Settle()
		require.Equal(t, "[{[new] <nil>}]", fmt.Sprint(b.answered().Answers))
		b.client.Ask(b.inquirer, &inquirer.Announce{})
		b.Settle()
		kittest.Expect[*inquirer.Started](b.client)
	})
}
