package conn_test

import (
	"errors"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/messages"
)

// echo answers each call with its method. The method "later" has no answer until the test sends one.
type echo struct{ *conn.Session }

func (x *echo) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		x.Serve(ctx)
	case *conn.Received:
		request, ok := x.Decode(ctx, m)
		switch {
		case !ok:
		case request.Method == "later":
			x.Begin()
		case request.Method == "unencodable":
			x.Succeed(ctx, func() {})
		default:
			x.Succeed(ctx, request.Method)
		}
	case *conn.Refused:
		x.Refuse(ctx, m.Err)
	case *messages.Failure:
		x.Fail(ctx, m)
	case *messages.Drain:
		x.Drain(ctx)
	case *actor.Stopping:
		x.Close()
	}
}

// echoGateway accepts connections for echo.
type echoGateway struct {
	*conn.Gateway
	env *kittest.Env
}

func (g *echoGateway) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *conn.Opened:
		g.Accept(ctx, m, func(c conn.Conn, _ uint32) actor.Actor { return &echo{conn.NewSession(c, g.env.Log())} })
	case *messages.Drain:
		g.Drain(ctx, m)
	}
}

// gateway is an echoGateway whose lease the test ends.
type gateway struct {
	*testing.T
	*kittest.Env
	pid     *actor.PID
	expired bool
}

func onGateway(t *testing.T, f func(*testing.T, *gateway)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		g := &gateway{T: t, Env: e}
		leads := func() bool { return !g.expired }
		g.pid = e.Start("gateway", conn.Props(e.Env, "gateway", leads, func(own *conn.Gateway) actor.Actor { return &echoGateway{own, e} }))
		f(t, g)
	})
}

func (g *gateway) connect() *conntest.Client { return conntest.Connect(g.T, g.Env, g.pid) }

func (g *gateway) drain() {
	supervisor := g.Probe("supervisor")
	supervisor.Ask(g.pid, &messages.Drain{})
	kittest.Expect[*messages.DrainResult](supervisor)
}

func TestASessionAnswers(t *testing.T) {
	onGateway(t, func(t *testing.T, g *gateway) {
		c := g.connect()
		c.Call("hello", `[]`)
		require.Equal(t, `{"success":true,"result":"hello"}`, c.Answer())
		c.Call("later", `[]`)
		c.Silent()
		c.Tell(&messages.Failure{Class: "JobLost", Text: "no job"})
		require.Equal(t, `{"success":false,"result":["JobLost",["no job"]]}`, c.Answer())
		c.Call("later", `[]`)
		c.Tell(&messages.Failure{Class: "OpPrereqError", Text: "no", Code: "wrong_input"})
		require.Equal(t, `{"success":false,"result":["OpPrereqError",["no","wrong_input"]]}`, c.Answer())
		c.Call("unencodable", `[]`)
		require.Contains(t, c.Answer(), `["ProgrammerError",["the answer cannot be encoded: `)
		require.Equal(t, "unencodable", g.Logged("the result of a request cannot be encoded")[0]["method"])
		require.False(t, c.Closed())
	})
}

func TestASessionEndsWithAnInvalidFrame(t *testing.T) {
	onGateway(t, func(t *testing.T, g *gateway) {
		for _, m := range []any{&conn.Received{Frame: []byte("nonsense")}, &conn.Refused{Err: errors.New("too large")}} {
			c := g.connect()
			c.Tell(m)
			require.Contains(t, c.Answer(), `{"success":false,"result":"Failed to parse request: `)
			require.Equal(t, 1, c.Conn.Closes())
		}
	})
}

func TestADrainAnswersTheCurrentRequests(t *testing.T) {
	onGateway(t, func(t *testing.T, g *gateway) {
		idle, busy := g.connect(), g.connect()
		busy.Call("later", `[]`)
		g.drain()
		require.True(t, idle.Closed())
		busy.Silent()
		busy.Tell(&messages.Failure{Class: "JobLost", Text: "no job"})
		require.Contains(t, busy.Answer(), "JobLost")
		require.True(t, busy.Closed())
		late := &conntest.Conn{}
		g.Send(g.pid, &conn.Opened{Conn: late})
		g.Settle()
		require.Equal(t, 1, late.Closes())
		require.Nil(t, late.Server())
	})
}

// The owner of a connection offers it again when it does not know whether the offer has arrived.
func TestAConnectionThatIsOfferedTwiceIsServedOnce(t *testing.T) {
	onGateway(t, func(t *testing.T, g *gateway) {
		c := &conntest.Conn{}
		opened := &conn.Opened{Conn: c}
		g.Send(g.pid, opened)
		g.Settle()
		server := c.Server()
		require.NotNil(t, server)
		g.Send(g.pid, opened)
		g.Settle()
		require.Equal(t, server, c.Server())
		require.Zero(t, c.Closes())
	})
}

// A node without its lease may no longer be the master, so its answer may be wrong.
func TestAnAnswerWithoutTheLeaseClosesTheConnection(t *testing.T) {
	onGateway(t, func(t *testing.T, g *gateway) {
		c := g.connect()
		c.Call("later", `[]`)
		g.expired = true
		c.Tell(&messages.Failure{Class: "JobLost", Text: "no job"})
		require.Empty(t, c.Conn.Answers())
		require.True(t, c.Closed())
	})
}

func TestACrashClosesOneConnection(t *testing.T) {
	onGateway(t, func(t *testing.T, g *gateway) {
		c, other := g.connect(), g.connect()
		g.Crash(c.Conn.Server())
		require.True(t, c.Closed())
		require.False(t, other.Closed())
		former := other.Conn.Server().Id
		g.Restart(g.pid)
		require.True(t, other.Closed())
		next := g.connect()
		require.NotEqual(t, former, next.Conn.Server().Id, "each incarnation has its own names")
		next.Call("hello", `[]`)
		next.Answer()
	})
}
