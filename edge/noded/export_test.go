package noded

import (
	"time"

	"lockstep/core/noded"
)

// WithLimits sets the limits of a client.
func (c *Client) WithLimits(connect, call time.Duration) *Client {
	c.connectTimeout = connect
	c.limits = func(p noded.Procedure) noded.Limits { return noded.Limits{Time: call, Answer: p.Limits().Answer} }
	return c
}

// SetCloseGrace sets how long Close waits for calls in progress.
func (d *Daemons) SetCloseGrace(grace time.Duration) { d.closeGrace = grace }
