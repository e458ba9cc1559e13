package noded

import (
	"context"
	"sync"
	"time"

	"lockstep/actors/config/distributor"
	"lockstep/core/distribution"
	"lockstep/core/noded"
)

// Daemons is the distributor.Daemons of a real node: it sends the configuration and ssconf files to node daemons with a Client.
type Daemons struct {
	client     *Client
	waiting    context.Context // of calls that wait for their turn; it ends at the beginning of Close
	closing    context.CancelFunc
	ctx        context.Context // of all calls; it ends with Close
	cancel     context.CancelFunc
	closeGrace time.Duration // of Close for calls that a node daemon has begun
	calls      sync.WaitGroup
}

// closeGrace is shorter than the time after which Ganeti's daemon-util kills a daemon that it stops.
const closeGrace = 5 * time.Second

var _ distributor.Daemons = (*Daemons)(nil)

// NewDaemons returns a Daemons that makes its calls with c. No call is in progress.
func NewDaemons(c *Client) *Daemons {
	d := &Daemons{client: c, closeGrace: closeGrace}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.waiting, d.closing = context.WithCancel(d.ctx)
	return d
}

// Send is part of distributor.Daemons. It returns at once; calls to one node with one kind of content are made in the order of Send. done
// gets the result.
func (d *Daemons) Send(s distribution.Send, done func(distribution.Result)) {
	t := d.client.turns.take(turnKey{s.Node.Address, s.Content.Kind.Procedure()})
	d.calls.Go(func() { done(d.send(t, s)) })
}

func (d *Daemons) send(t turn, s distribution.Send) distribution.Result {
	began := time.Now()
	r := s.Content.Request()
	encoding := time.Since(began)
	if err := t.wait(d.waiting); err != nil || d.waiting.Err() != nil {
		t.end()
		return distribution.Result{Err: &CallError{s.Node.Name, r.Procedure, context.Canceled}, Encoding: encoding}
	}
	result, err := d.client.callInTurn(d.ctx, t, s.Node, r)
	if err == nil {
		if err = noded.DecodeVoid(result); err != nil {
			err = &CallError{s.Node.Name, r.Procedure, err}
		}
	}
	return distribution.Result{Err: err, Encoding: encoding}
}

// Close ends the calls that wait for their turn with errors, and waits for the others: a node daemon logs an error with a traceback for
// a client that leaves in the middle of a call. After a few seconds it ends them too. A node may execute such a call
// nevertheless.
func (d *Daemons) Close() {
	d.closing()
	defer time.AfterFunc(d.closeGrace, d.cancel).Stop()
	d.calls.Wait()
	d.cancel()
}
