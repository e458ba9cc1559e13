package rapi

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lockstep/core/wire"
	"lockstep/edge/admission"
	"lockstep/edge/luxiclient"
)

// Luxi makes calls as a client of the LUXI gateway does. Errors are those of
// luxiclient.Client, and admission.ErrBusy.
type Luxi interface {
	Call(ctx context.Context, class Class, method string, args ...any) (raw, error)
}

// LargeLuxi is a Luxi that does not copy large results.
type LargeLuxi interface {
	Luxi
	// CallParts is Call for a result that may be large, in parts that are one text together.
	CallParts(ctx context.Context, class Class, method string, args ...any) ([][]byte, error)
}

// Class is how long calls of a kind may take, and so by what their number is bounded.
type Class = admission.Class

// Classes of calls.
const (
	Short   = admission.Short
	Page    = admission.Page
	Large   = admission.Large
	Live    = admission.Live
	Long    = admission.Long
	Preview = admission.Preview
	Wait    = admission.Wait
)

// Bounds of connections to the gateway.
const (
	idleConnsMax = 32               // connections kept for later
	callTimeout  = 75 * time.Second // a little more than what the gateway allows itself
)

// Pool makes calls of the LUXI gateway for HTTP requests, over connections of which it keeps some open.
type Pool struct {
	gateway  Gateway
	table    *admission.Table
	forwards bool

	mu   sync.Mutex
	idle []*connection
}

// NewPool returns a Pool without connections, whose calls are not forwarded to another node.
func NewPool(g Gateway, t *admission.Table) *Pool {
	return &Pool{gateway: g, table: t}
}

// NewForwardingPool is NewPool for clients that any node of a cluster serves: a node that is not the master forwards their
// calls to the master.
func NewForwardingPool(g Gateway, t *admission.Table) *Pool {
	return &Pool{gateway: g, table: t, forwards: true}
}

// forwardMethod asks a node that is not the master to forward the connection (docs/protocol.md).
const forwardMethod = "LockstepForward"

// exchange makes one request over a connection. A node that is not the master forwards it, if the pool does.
func (p *Pool) exchange(ctx context.Context, c *connection, payload []byte) (answer [][]byte, sent bool, err error) {
	answer, sent, err = c.call(ctx, payload)
	if err != nil || !p.forwards || !isReferral(answer[0]) {
		return answer, sent, err
	}
	forward, err := wire.EncodeRequest(forwardMethod, nil)
	if err != nil {
		return nil, false, err
	}
	if answer, sent, err = c.call(ctx, forward); err != nil {
		return nil, false, err // the request has had no effect
	}
	if _, err := wire.ResultParts(answer); err != nil {
		return answer, sent, nil //nolint:nilerr // the answer is the error: no master is known
	}
	return c.call(ctx, payload)
}

// isReferral reports whether an answer says that the node is not the master.
func isReferral(answer []byte) bool {
	if !bytes.Contains(answer[:min(len(answer), 200)], []byte("NotMaster")) {
		return false
	}
	_, err := wire.DecodeResponse(answer)
	var failed *wire.Error
	return errors.As(err, &failed) && failed.Class == "NotMaster"
}

// Conversation is one connection to the gateway, for calls whose state belongs to the connection. One goroutine at a time uses it.
type Conversation struct {
	pool *Pool
	conn *connection
}

// Converse opens a connection for calls that remember one another, such as those for events.
func (p *Pool) Converse() *Conversation { return &Conversation{p, p.gateway.open()} }

// Call makes one call. After an error other than that of a method the connection cannot be used.
func (v *Conversation) Call(ctx context.Context, method string, args ...any) (raw, error) {
	payload, err := wire.EncodeRequest(method, args)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, luxiclient.ErrNoAnswer)
	defer cancel()
	answer, sent, err := v.pool.exchange(ctx, v.conn, payload)
	if err != nil {
		return nil, &luxiclient.ConnectionLostError{Method: method, Sent: sent, Err: err}
	}
	parts, err := wire.ResultParts(answer)
	if err != nil {
		return nil, err
	}
	return join(ctx, parts)
}

// join makes one text of parts. It takes memory for the copy, if it makes one.
func join(ctx context.Context, parts [][]byte) (raw, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if err := admission.Take(ctx, size); err != nil {
		return nil, err
	}
	return slices.Concat(parts...), nil
}

// Close ends the connection of the conversation.
func (v *Conversation) Close() { v.conn.abandon() }

// Call is part of Luxi. It is CallParts with the parts of the answer joined.
func (p *Pool) Call(ctx context.Context, class Class, method string, args ...any) (raw, error) {
	parts, err := p.CallParts(ctx, class, method, args...)
	if err != nil {
		return nil, err
	}
	return join(ctx, parts)
}

// CallParts is part of LargeLuxi. A request that was not sent is sent again, over another
// connection; one that was is not.
func (p *Pool) CallParts(ctx context.Context, class Class, method string, args ...any) ([][]byte, error) {
	payload, err := wire.EncodeRequest(method, args)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, luxiclient.ErrNoAnswer)
	defer cancel()
	ctx, release, err := turn(ctx, p.table, class, method)
	if err != nil {
		return nil, err
	}
	defer release()
	for tries := 0; ; tries++ {
		c := p.connect()
		answer, sent, err := p.exchange(ctx, c, payload)
		if err != nil && answer != nil { // there is no memory for it
			p.putIdle(c)
			return nil, err
		}
		if err != nil {
			c.abandon()
			if errors.Is(err, errClosed) && !sent && tries < 2 {
				continue
			}
			return nil, &luxiclient.ConnectionLostError{Method: method, Sent: sent, Err: err}
		}
		result, err := wire.ResultParts(answer)
		var failed *wire.Error
		if err == nil || errors.As(err, &failed) {
			p.putIdle(c)
		} else {
			c.abandon() // the other side closes it as well (queue.md 1.3)
		}
		return result, err
	}
}

// connect takes the idle connection that was used last, or opens one.
func (p *Pool) connect() *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		c := p.idle[last]
		p.idle = p.idle[:last]
		if c.usable() {
			return c
		}
	}
	return p.gateway.open()
}

func (p *Pool) putIdle(c *connection) {
	p.mu.Lock()
	full := len(p.idle) >= idleConnsMax
	if !full {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if full {
		c.abandon()
	}
}

// ActiveCalls is how many calls of a class are being made.
func (p *Pool) ActiveCalls(class Class) int { return p.table.Active(class) }

// turn waits until the client of ctx may make a call.
func turn(ctx context.Context, t *admission.Table, class Class, method string) (working context.Context, release func(), err error) {
	working, release, err = t.Turn(ctx, class)
	if err != nil && !errors.Is(err, admission.ErrBusy) {
		err = &luxiclient.ConnectionLostError{Method: method, Err: err}
	}
	return working, release, err
}
