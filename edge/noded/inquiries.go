package noded

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/actors/inquirer"
	"lockstep/core/inquiry"
	"lockstep/core/noded"
)

// Inquiries is the inquirer.Daemons of a real node: it asks node daemons for what only they know. It is an inquirer.Daemons. The inquirer
// bounds the number of calls: they take no slots of the client, so that queries and the distribution do not wait for each other.
type Inquiries struct {
	client     *Client
	ctx        context.Context // of all calls; it ends with Close
	cancel     context.CancelFunc
	closeGrace time.Duration // of Close for calls that a node daemon has begun
	calls      sync.WaitGroup
}

var _ inquirer.Daemons = (*Inquiries)(nil)

// NewInquiries returns an Inquiries that makes its calls with c. No call is in progress.
func NewInquiries(c *Client) *Inquiries {
	i := &Inquiries{client: c, closeGrace: closeGrace}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	return i
}

// inquiryCall is one question to a node daemon that is on its way.
type inquiryCall struct {
	sent   atomic.Bool
	cancel context.CancelFunc
}

// Sent is part of inquirer.Call. It reports whether the question may have left for the node.
func (c *inquiryCall) Sent() bool { return c.sent.Load() }

// GiveUp is part of inquirer.Call. It ends the call, whose done gets an error.
func (c *inquiryCall) GiveUp() { c.cancel() }

// Ask is part of inquirer.Daemons. It returns at once; done gets the answer, and whether a time limit has ended the call.
func (i *Inquiries) Ask(q inquiry.Question, done func(inquiry.Answer, bool)) inquirer.Call {
	ctx, cancel := context.WithCancel(i.ctx)
	c := &inquiryCall{cancel: cancel}
	// The request leaves as soon as there is a connection.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.sent.Store(true) }})
	i.calls.Go(func() {
		defer cancel()
		value, err := i.ask(ctx, q)
		if err != nil {
			done(inquiry.Answer{Err: err}, errors.Is(err, context.DeadlineExceeded))
			return
		}
		done(inquiry.Answer{Value: value}, false)
	})
	return c
}

func (i *Inquiries) ask(ctx context.Context, q inquiry.Question) (any, error) {
	raw, err := i.client.callNow(ctx, q.Node, q.Request)
	if err != nil {
		return nil, err
	}
	return noded.DecodeResult(q.Request.Procedure, raw)
}

// Close waits for the calls in progress for a few seconds, as Daemons.Close does, and then ends them.
func (i *Inquiries) Close() {
	defer time.AfterFunc(i.closeGrace, i.cancel).Stop()
	i.calls.Wait()
	i.cancel()
}
