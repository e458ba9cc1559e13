package rapi

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/core/access"
	"lockstep/edge/admission"
)

const (
	// serveTimeout is how long a connection waits for an actor that serves it.
	serveTimeout = 10 * time.Second
	// offerInterval is the first pause before an unserved connection is offered again.
	offerInterval = 250 * time.Millisecond
)

// Errors of a connection without an answer.
var (
	errNotServed = errors.New("no actor serves the connection")
	errClosed    = errors.New("the connection was closed")
)

// Gateway opens connections to the LUXI gateway's actor inside this process, without a socket.
type Gateway struct {
	System *actor.ActorSystem
	PID    func() *actor.PID // the current gateway
}

// open makes a connection and offers it to the gateway.
func (g Gateway) open() *connection {
	c := &connection{
		system:  g.System,
		gateway: g.PID,
		serving: make(chan struct{}),
		answers: make(chan [][]byte, 1),
		closing: make(chan struct{}),
	}
	c.opened = &conn.Opened{Conn: c}
	c.offer()
	return c
}

// offer sends the connection to the gateway. The message is lost when the gateway has not started yet, crashes on it, or
// stops before it reads it.
func (c *connection) offer() { c.system.Root.Send(c.gateway(), c.opened) }

// connection is a client of the LUXI gateway in the same process. Actors see it as a conn.Conn;
// handlers use call. It has no goroutine.
type connection struct {
	system  *actor.ActorSystem
	gateway func() *actor.PID // the current one
	opened  *conn.Opened      // offers this connection
	serving chan struct{}     // closed when an actor serves the connection
	answers chan [][]byte     // at most one, in parts: the answer of the current call
	closing chan struct{}     // closed by Close
	current *exchange

	mu        sync.Mutex
	server    *actor.PID
	abandoned bool
	closed    bool
}

// exchange is one call. The actor that answers has it until its answer; the caller has it then.
type exchange struct {
	ctx      context.Context //nolint:containedctx // of the call, which ends with it
	reserved int             // bytes of memory for the answer
	busy     bool            // there was not enough
}

// Reserve is part of conn.Conn. It takes memory for the answer from the request that is being made; false: there is none.
func (c *connection) Reserve(size int) bool {
	return c.current.reserve(size) == nil
}

// reserve takes memory for an answer of this size. The error is admission.ErrBusy, from then on.
func (x *exchange) reserve(size int) error {
	if x.busy || admission.Take(x.ctx, size-x.reserved) != nil {
		_ = admission.Take(x.ctx, -x.reserved) // of the answer that will not come
		x.busy, x.reserved = true, 0
		return admission.ErrBusy
	}
	x.reserved = size
	return nil
}

// settle takes exactly the memory that the answer needs, and gives the rest back.
func (x *exchange) settle(answer [][]byte) error {
	size := 0
	for _, part := range answer {
		size += len(part)
	}
	return x.reserve(size)
}

// Serve is part of conn.Conn. It lets calls begin, whose requests go to that actor; if the client has gone meanwhile, the actor gets
// conn.Closed.
func (c *connection) Serve(to *actor.PID) {
	c.mu.Lock()
	first, abandoned := c.server == nil, c.abandoned
	c.server = to
	c.mu.Unlock()
	if first {
		close(c.serving)
	}
	if abandoned {
		c.system.Root.Send(to, &conn.Closed{})
	}
}

// Answer is part of conn.Conn. It passes the answer to the call that waits for it, and drops it if that has ended.
func (c *connection) Answer(parts ...[]byte) {
	select {
	case c.answers <- parts:
	default: // the call has ended
	}
}

// Close is part of conn.Conn. The call in progress fails; a second Close does nothing.
func (c *connection) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
}

// abandon reports to the serving actor that the client has gone. An actor that serves later hears it then.
func (c *connection) abandon() {
	c.mu.Lock()
	to, closed := c.server, c.closed
	c.abandoned = true
	c.mu.Unlock()
	if to != nil && !closed {
		c.system.Root.Send(to, &conn.Closed{})
	}
}

type callerKey struct{}

// caller is the user for whom a call is made.
type caller struct {
	by   string // as in reason trails: "user=deploy, from=10.0.0.5"
	from access.Identity
}

// WithCaller sets the user for whom calls are made: by as reason trails have it, and from as permissions need it. Without a caller the
// daemon makes calls for itself.
func WithCaller(ctx context.Context, by string, from access.Identity) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{by, from})
}

// CallerOf is the user for whom calls are made in ctx.
func CallerOf(ctx context.Context) access.Identity { return callerOf(ctx).from }

func callerOf(ctx context.Context) caller {
	if found, has := ctx.Value(callerKey{}).(caller); has {
		return found
	}
	return caller{from: access.DaemonItself(os.Geteuid())}
}

// usable reports whether the gateway has not closed the connection.
func (c *connection) usable() bool {
	select {
	case <-c.closing:
		return false
	default:
		return true
	}
}

// awaitServed waits for an actor that serves the connection, and offers the connection again after pauses that double. The error is
// errClosed, or the cause of ctx or of serveTimeout.
func (c *connection) awaitServed(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, serveTimeout, errNotServed)
	defer cancel()
	interval := offerInterval
	again := time.NewTimer(interval)
	defer again.Stop()
	for {
		select {
		case <-c.serving:
			if !c.usable() {
				return errClosed
			}
			return nil
		case <-c.closing:
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
			c.offer()
			interval *= 2
			again.Reset(interval)
		}
	}
}

// call makes one request and returns its answer, whose memory is taken from ctx, in parts. sent reports whether the request may have
// taken effect. After an error other than admission.ErrBusy the connection cannot be used.
func (c *connection) call(ctx context.Context, frame []byte) (answer [][]byte, sent bool, err error) {
	if err := c.awaitServed(ctx); err != nil {
		return nil, false, err
	}
	x := &exchange{ctx: ctx}
	c.current = x
	who := callerOf(ctx)
	c.system.Root.Send(c.server, &conn.Received{Frame: frame, By: who.by, From: who.from})
	select {
	case answer := <-c.answers:
		return answer, true, x.settle(answer)
	case <-c.closing:
	case <-ctx.Done():
		return nil, true, context.Cause(ctx)
	}
	select {
	case answer := <-c.answers: // the answer came before the close
		return answer, true, x.settle(answer)
	default:
		return nil, true, errClosed
	}
}
