package conn_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
)

// Messages of the conversations in these tests.
type (
	question struct{ number uint64 }
	reply    struct {
		number uint64
		text   string
	}
	otherReply struct{ number uint64 }
)

func (r *reply) GetRequest() uint64      { return r.number }
func (r *otherReply) GetRequest() uint64 { return r.number }

// talker is an actor with a conversation. The test runs code in it.
type talker struct {
	conn.Conversation
	*kittest.Env
	pid       *actor.PID
	neighbour *kittest.Probe
	replies   []string
}

func (x *talker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case func(actor.Context):
		m(ctx)
	case conn.Answer:
		x.Answered(ctx, m)
	}
}

func onTalker(t *testing.T, f func(*testing.T, *talker)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		x := &talker{Env: e, neighbour: e.Probe("neighbour")}
		x.pid = e.Start("talker", e.Props("talker", func() actor.Actor { return x }))
		f(t, x)
	})
}

func (x *talker) run(f func(ctx actor.Context)) {
	x.Send(x.pid, f)
	x.Settle()
}

// ask asks the neighbour and returns the number of the question.
func (x *talker) ask(lostBy conn.Restarts, once bool) uint64 {
	x.run(func(ctx actor.Context) {
		conn.Ask(ctx, &x.Conversation, conn.Question{To: x.neighbour.PID, LostBy: lostBy, Once: once,
			Message: func(number uint64) any { return &question{number} }},
			func(_ actor.Context, r *reply) { x.replies = append(x.replies, r.text) })
	})
	return kittest.Expect[*question](x.neighbour).number
}

func (x *talker) tell(m any) {
	x.Send(x.pid, m)
	x.Settle()
}

func (x *talker) restarted(by conn.Restarts) (undecided bool) {
	x.run(func(ctx actor.Context) { undecided = x.Restarted(ctx, by) })
	return undecided
}

func TestOnlyTheOpenQuestionIsAnswered(t *testing.T) {
	onTalker(t, func(t *testing.T, x *talker) {
		x.tell(&reply{0, "no question is open"})
		require.False(t, x.Open())
		first := x.ask(0, false)
		require.True(t, x.IsOpen(first))
		x.tell(&otherReply{first}) // of another type
		x.tell(&reply{first + 1, "another number"})
		x.tell(&reply{first, "one"})
		x.tell(&reply{first, "again"}) // a question that was sent twice has two answers
		second := x.ask(0, false)
		require.Greater(t, second, first)
		x.tell(&reply{first, "late"})
		x.tell(&reply{second, "two"})
		x.run(func(actor.Context) { x.End() })
		require.False(t, x.Open())
		x.tell(&reply{second, "after the end"})
		require.Greater(t, x.ask(0, false), second+1)
		require.Equal(t, []string{"one", "again", "two"}, x.replies)
	})
}

func TestARestartSendsAQuestionAgain(t *testing.T) {
	for name, c := range map[string]struct {
		lostBy    conn.Restarts
		once      bool
		restart   conn.Restarts
		again     bool
		undecided bool
	}{
		"lost":                       {conn.QueueRestart, false, conn.QueueRestart, true, false},
		"lost by one of two":         {conn.QueueRestart | conn.CoreRestart, false, conn.CoreRestart, true, false},
		"another actor's":            {conn.CoreRestart, false, conn.QueueRestart, false, false},
		"never lost":                 {0, false, conn.QueueRestart, false, false},
		"sent once":                  {conn.QueueRestart, true, conn.QueueRestart, false, true},
		"sent once, another actor's": {conn.QueueRestart, true, conn.CoreRestart, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			onTalker(t, func(t *testing.T, x *talker) {
				require.False(t, x.restarted(c.restart), "no question is open")
				x.neighbour.Quiet()
				number := x.ask(c.lostBy, c.once)
				require.Equal(t, c.undecided, x.restarted(c.restart))
				if c.again {
					require.Equal(t, number, kittest.Expect[*question](x.neighbour).number)
				}
				x.neighbour.Quiet()
				x.tell(&reply{number, "answer"})
				require.Equal(t, []string{"answer"}, x.replies)
				x.run(func(actor.Context) { x.StopResending() })
				require.False(t, x.restarted(c.restart))
				require.True(t, x.IsOpen(number))
				x.neighbour.Quiet()
			})
		})
	}
}

func TestAQuestionToTheStoreIsSentElsewhere(t *testing.T) {
	onTalker(t, func(t *testing.T, x *talker) {
		former := x.ask(conn.QueueRestart, false)
		x.run(func(actor.Context) { x.Begin() })
		require.True(t, x.Open())
		require.False(t, x.IsOpen(former))
		require.False(t, x.restarted(conn.QueueRestart|conn.CoreRestart))
		x.tell(&reply{x.Number(), "is dropped"})
		x.neighbour.Quiet()
		require.Empty(t, x.replies)
	})
}
