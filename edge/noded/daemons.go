package noded

import (
	"context"
	"sync"
	"time"

	"lockstep/actors/distributor"
	"lockstep/core/distribution"
	"lockstep/core/noded"
)

// Daemons makes the calls of the distributor with a Client. It is a distributor.Daemons.
type Daemons struct {
	client *Client
	ctx    context.Context // of all calls; it ends with Close
	cancel context.CancelFunc
	calls  sync.WaitGroup
}

var _ distributor.Daemons = (*Daemons)(nil)

// NewDaemons returns a Daemons without calls.
func NewDaemons(c *Client) *Daemons {
	d := &Daemons{client: c}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Send is part of distributor.Daemons.
func (d *Daemons) Send(s distribution.Send, done func(distribution.Result)) {
	t := d.client.turns.take(turnKey{s.Node.Address, s.Content.Kind.Procedure()})
	d.calls.Go(func() { done(d.send(t, s)) })
}

func (d *Daemons) send(t turn, s distribution.Send) distribution.Result {
	began := time.Now()
	r := s.Content.Request()
	encoding := time.Since(began)
	result, err := d.client.callInTurn(d.ctx, t, s.Node, r)
	if err == nil {
		if err = noded.DecodeVoid(result); err != nil {
			err = &CallError{s.Node.Name, r.Procedure, err}
		}
	}
	return distribution.Result{Err: err, Encoding: encoding}
}

// Close ends all calls with errors and waits for them. A node may execute such a call nevertheless.
func (d *Daemons) Close() {
	d.cancel()
	d.calls.Wait()
}
