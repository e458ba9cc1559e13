package rapi_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/core/access"
	"lockstep/core/budget"
	"lockstep/core/wire"
	"lockstep/edge/admission"
	"lockstep/edge/luxiclient"
	"lockstep/edge/rapi"
)

// fakeGateway serves connections as the real gateway does, with an actor for each.
type fakeGateway struct {
	env    *kit.Env
	pid    *actor.PID
	opened atomic.Int32
	closed atomic.Int32
	caller atomic.Value // the user of the last request
	from   atomic.Value // the identity of that user
	serve  func(ctx actor.Context, conn conn.Conn, request wire.Request)
}

func newFakeGateway(t *testing.T, serve func(actor.Context, conn.Conn, wire.Request)) *fakeGateway {
	g := &fakeGateway{env: kit.New(kit.Options{}), serve: serve}
	pid, _, err := g.env.SpawnRoot(g.env.Props("gateway", func() actor.Actor { return actor.ReceiveFunc(g.receive) }), "gateway")
	require.NoError(t, err)
	g.pid = pid
	return g
}

func (g *fakeGateway) receive(ctx actor.Context) {
	m, ok := ctx.Message().(*conn.Opened)
	if !ok {
		return
	}
	g.opened.Add(1)
	_, err := ctx.SpawnNamed(g.env.Props("connection", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) { g.connection(ctx, m.Conn) })
	}), g.env.System().ProcessRegistry.NextId())
	if err != nil {
		panic(err)
	}
}

func (g *fakeGateway) connection(ctx actor.Context, c conn.Conn) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.Serve(ctx.Self())
	case *conn.Received:
		g.caller.Store(m.By)
		g.from.Store(m.From)
		request, err := wire.DecodeRequest(m.Frame)
		if err != nil {
			panic(err)
		}
		g.serve(ctx, c, request)
	case *conn.Closed:
		g.closed.Add(1)
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.Close()
	}
}

func (g *fakeGateway) pool() *rapi.Pool {
	return rapi.NewPool(rapi.Gateway{System: g.env.System(), PID: func() *actor.PID { return g.pid }}, admission.NewTable())
}

// echo answers with the method, or as the name of the method says.
func echo(ctx actor.Context, conn conn.Conn, request wire.Request) {
	switch request.Method {
	case "Fail":
		conn.Answer(wire.EncodeError("GenericError", "no"))
	case "Refuse":
		conn.Answer(wire.EncodeParseError("Failed to parse request: no"))
		ctx.Stop(ctx.Self())
	case "Crash":
		panic("oops")
	case "Silence":
	default:
		frame, err := wire.EncodeResult(request.Method)
		if err != nil {
			panic(err)
		}
		conn.Answer(frame)
	}
}

func TestCallsOverConnectionsInTheProcess(t *testing.T) {
	g := newFakeGateway(t, echo)
	p := g.pool()
	call := func(method string) (string, error) {
		result, err := p.Call(context.Background(), rapi.Short, method, 1, "x")
		return string(result), err
	}
	for range 10 {
		result, err := call("Some")
		require.NoError(t, err)
		require.Equal(t, `"Some"`, result)
	}
	var failed *wire.Error
	_, err := call("Fail")
	require.ErrorAs(t, err, &failed)
	require.EqualValues(t, 1, g.opened.Load(), "one connection after the other is used again")

	var refused *wire.RequestError
	_, err = call("Refuse")
	require.ErrorAs(t, err, &refused)
	_, err = call("Some")
	require.NoError(t, err)
	require.EqualValues(t, 2, g.opened.Load())

	var lost *luxiclient.ConnectionLostError
	_, err = call("Crash")
	require.ErrorAs(t, err, &lost)
	require.True(t, lost.Sent)
	_, err = call("Some")
	require.NoError(t, err)
}

// Each request has its user at the gateway, because connections are used for one user after the other. A call without a user is the
// daemon's own.
func TestWhoMakesACall(t *testing.T) {
	g := newFakeGateway(t, echo)
	p := g.pool()
	ada := access.Identity{UID: 1000, Name: "ada", Login: access.NoUID}
	bob := access.Identity{UID: access.NoUID, Login: access.NoUID, Remote: "bob", Role: access.Submit}
	for by, from := range map[string]access.Identity{"uid=1000(ada), from=10.0.0.1": ada, "user=bob, from=10.0.0.2": bob, "": access.DaemonItself(os.Geteuid())} {
		ctx := context.Background()
		if by != "" {
			ctx = rapi.WithCaller(ctx, by, from)
		}
		_, err := p.Call(ctx, rapi.Short, "Some")
		require.NoError(t, err)
		require.Equal(t, by, g.caller.Load())
		require.Equal(t, from, g.from.Load())
	}
	require.EqualValues(t, 1, g.opened.Load())
}

// When a client disconnects, the actor that serves it gets a message.
func TestACallThatIsGivenUp(t *testing.T) {
	g := newFakeGateway(t, echo)
	p := g.pool()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := p.Call(ctx, rapi.Long, "Silence")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool { return g.closed.Load() == 1 }, 10*time.Second, time.Millisecond)
	require.Zero(t, p.ActiveCalls(rapi.Long))
	_, err = p.Call(context.Background(), rapi.Long, "Some")
	require.NoError(t, err)
}

// Any number of long calls leaves room for short calls, and the number of calls is bounded.
func TestCallsAreBounded(t *testing.T) {
	g := newFakeGateway(t, echo)
	p := g.pool()
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	for range 4 { // one of them waits: the last turn is for another client
		calls.Go(func() { _, _ = p.Call(ctx, rapi.Page, "Silence") })
	}
	require.Eventually(t, func() bool { return p.ActiveCalls(rapi.Page) == 3 }, 10*time.Second, time.Millisecond)
	_, err := p.Call(context.Background(), rapi.Short, "Some")
	require.NoError(t, err)
	short, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	_, err = p.Call(short, rapi.Page, "Some")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	cancel()
	calls.Wait()
	for range 200 {
		calls.Go(func() {
			if _, err := p.Call(context.Background(), rapi.Short, "Some"); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

// The actor that serves connections may be absent, temporarily or permanently.
func TestNotServed(t *testing.T) {
	env := kit.New(kit.Options{})
	p := rapi.NewPool(rapi.Gateway{System: env.System(), PID: func() *actor.PID { return env.PID("nobody") }}, admission.NewTable())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := p.Call(ctx, rapi.Short, "Some")
	var lost *luxiclient.ConnectionLostError
	require.True(t, errors.As(err, &lost) && !lost.Sent)
}

func BenchmarkCall(b *testing.B) {
	g := &fakeGateway{env: kit.New(kit.Options{}), serve: echo}
	pid, _, err := g.env.SpawnRoot(g.env.Props("gateway", func() actor.Actor { return actor.ReceiveFunc(g.receive) }), "gateway")
	require.NoError(b, err)
	g.pid = pid
	p := g.pool()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Call(context.Background(), rapi.Short, "Some"); err != nil {
			b.Fatal(err)
		}
	}
}

// A user is not refused for the memory that others have who come from the same address: it is taken after the login.
func TestAUserBehindAFullAddress(t *testing.T) {
	table := admission.NewTable()
	others := table.Share(admission.UID(os.Getuid()), func() {}) // who connect over loopback, as this test does
	require.NoError(t, others.Grow(budget.ClientBytesMax))
	b := newTestServer(t, func(c *rapi.Config) { c.Table = table })
	require.Equal(t, 200, b.do("GET", "/3/jobs?limit=20", "reader:secret", "").code)
	require.Equal(t, 201, b.do("POST", "/3/jobs", "peer:secret", `{"ops":[{"OP_ID":"OP_TEST_DELAY","duration":1}]}`).code)
	b.failure(503, b.do("GET", "/version", "", ""))
}

// An answer for which its client has no memory is not made to its end: the call fails, gives back what it has taken, and the connection
// serves the next one. Over HTTP it is 503 with Retry-After.
func TestAnAnswerWithoutMemoryIsRefused(t *testing.T) {
	steps := 0
	g := newFakeGateway(t, func(ctx actor.Context, c conn.Conn, request wire.Request) {
		if request.Method != "QueryJobs" {
			echo(ctx, c, request)
			return
		}
		result := wire.NewResult()
		result.Tail = append(result.Tail, '[')
		for steps = 0; steps < 100; steps++ {
			if !c.Reserve(result.Len()) {
				c.Answer(wire.EncodeError("GenericError", "too busy"))
				return
			}
			if steps > 0 {
				result.Tail = append(result.Tail, ',')
			}
			result.Tail = append(result.Tail, `[7]`+strings.Repeat(" ", 100_000)...)
			result.Next(0)
		}
		result.Tail = append(result.Tail, ']')
		c.Answer(result.Close()...)
	})
	table := admission.NewTableWith(budget.NewBytesOf(16<<20, 16<<20, 0))
	pool := rapi.NewPool(rapi.Gateway{System: g.env.System(), PID: func() *actor.PID { return g.pid }}, table)
	b := newTestServer(t, func(c *rapi.Config) { c.Luxi, c.Table = pool, table })
	other := table.Share(admission.User("reader"), func() {})
	require.NoError(t, other.Grow(12<<20))
	a := b.do("GET", "/2/jobs", "reader:secret", "")
	b.failure(503, a)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	require.Less(t, steps, 50)
	other.End()
	a = b.do("GET", "/2/jobs", "reader:secret", "")
	require.Equal(t, 200, a.code)
	require.Equal(t, 100, strings.Count(a.body, `"uri"`))
	require.Equal(t, 100, steps)
	require.EqualValues(t, 1, g.opened.Load())
	require.Eventually(t, func() bool { return table.Used() == 0 }, 10*time.Second, time.Millisecond)
}
