package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"lockstep/core/jobproc"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// connections makes calls to one socket of the daemon. Each call has a connection for itself while it is under way; one
// idle connection is kept for the next call.
type connections struct {
	socket string

	mu   sync.Mutex
	idle *luxiclient.Client // nil: none
}

// call makes one call over the idle connection or a new one, and decodes the answer into result. timeout bounds the connection and the
// answer together. A connection that is in order stays open for the next call.
func (c *connections) call(ctx context.Context, timeout time.Duration, method string, args []any, result any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c.mu.Lock()
	client := c.idle
	c.idle = nil
	c.mu.Unlock()
	if client == nil {
		var err error
		if client, err = luxiclient.Dial(ctx, c.socket, luxiclient.Options{}); err != nil {
			return err
		}
	}
	err := client.Call(ctx, method, args, result)
	var answered *wire.Error
	if err == nil || errors.As(err, &answered) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.idle == nil {
			c.idle = client
			return err
		}
	}
	_ = client.Close() // broken, or one more than needed
	return err
}

// ask makes a call for an executing opcode, and repeats it until a daemon has decided. A refusal is a *wire.Error.
func (c *connections) ask(method string, args []any, result any) error {
	for backoff := jobproc.DaemonBackoff(); ; {
		err := c.call(context.Background(), jobproc.CallTimeout, method, args, result)
		if jobproc.QueryDecided(err) {
			return err
		}
		time.Sleep(backoff.Pause())
	}
}

// line makes the calls of a jobproc.Line, one after the other.
type line struct {
	connections *connections
	cancel      func()        // ends the latest call
	ended       chan struct{} // closed when the latest call has ended
}

func newLine(c *connections) *line {
	ended := make(chan struct{})
	close(ended)
	return &line{connections: c, cancel: func() {}, ended: ended}
}

// call makes a call in place of the call under way, whose connection is closed before.
func (l *line) call(c jobproc.Call, done func(result []byte, err error)) {
	l.cancel()
	before, ended := l.ended, make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.ended = cancel, ended
	go func() {
		<-before
		var result json.RawMessage
		err := l.connections.call(ctx, c.Timeout, c.Method, c.Args, &result)
		close(ended)
		done(result, err)
	}()
}
