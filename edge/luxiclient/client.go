// Package luxiclient makes calls to a LUXI socket. It connects, sends one request at a
// time and waits for the answer.
//
// A client owns its connection. It never repeats a request: a *ConnectionLostError says
// whether the request was sent, and the caller decides. It keeps nothing on the disk. The
// job process links this package, so it avoids package net and other large dependencies.
package luxiclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"lockstep/core/wire"
)

// Options are the limits of a Client; a zero value means the default.
type Options struct {
	ConnectTimeout time.Duration // 30 s: how long to retry a server whose backlog is full
	AnswerTimeout  time.Duration // 180 s: from sending a request to the end of its answer
	MaxFrame       int           // wire.MaxFrame bytes
	// Grow is asked before the buffer of an answer grows to a size in bytes, and ends the call with its error; nil: it may grow.
	Grow func(size int) error
}

func (o Options) withDefaults() Options {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 30 * time.Second
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = 180 * time.Second
	}
	if o.MaxFrame == 0 {
		o.MaxFrame = wire.MaxFrame
	}
	return o
}

// Conn is what a Client needs of a connection; *os.File of a socket and net.Conn
// have it. SetDeadline must wake a read or write that is under way, as must Close.
type Conn interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// Client makes calls over one connection, one after the other (queue.md 1.1). It is used by one
// goroutine at a time; only Close may be called from another.
//
// It never sends a request twice, unlike Ganeti's client: only the caller knows whether that is
// safe.
type Client struct {
	conn    Conn
	reader  *wire.Reader
	options Options
	broken  bool // the connection is lost, or request and answer are out of step
}

// Dial connects to the LUXI socket at path. It fails at once with *NoDaemonError if no process
// listens there. Only a server whose backlog is full is tried again.
func Dial(ctx context.Context, path string, options Options) (*Client, error) {
	options = options.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, options.ConnectTimeout, ErrNoAnswer)
	defer cancel()
	conn, err := Connect(ctx, path)
	if err != nil {
		return nil, &NoDaemonError{Path: path, Err: err}
	}
	return NewClient(conn, options), nil
}

// NewClient returns a Client that makes its calls over an open connection, which it owns from then on.
func NewClient(conn Conn, options Options) *Client {
	options = options.withDefaults()
	reader := wire.NewReader(conn, options.MaxFrame)
	if options.Grow != nil {
		reader.SetGrowCheck(options.Grow)
	}
	return &Client{conn: conn, reader: reader, options: options}
}

// Close ends the connection; closing it again does nothing. A call under way
// returns *ConnectionLostError.
func (c *Client) Close() error {
	if err := c.conn.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Call sends one request and decodes the result of its answer into result, unless
// that is nil. args are positional, nil means none.
//
// Errors: *wire.Error when the method failed, *wire.RequestError when the server did not
// understand the request, *wire.MalformedResponse, *ConnectionLostError when there was no
// answer. The latter wraps the context's cause when ctx ended while waiting. After
// a *ConnectionLostError or a *wire.RequestError the connection is closed and the client of no
// further use.
func (c *Client) Call(ctx context.Context, method string, args []any, result any) error {
	if c.broken {
		return &ConnectionLostError{Method: method, Err: ErrClosed}
	}
	payload, err := wire.EncodeRequest(method, args)
	if err != nil {
		return err
	}
	frame, sent, err := c.exchange(ctx, payload)
	if err != nil {
		c.breakOff()
		return &ConnectionLostError{Method: method, Sent: sent, Err: err}
	}
	raw, err := wire.DecodeResponse(frame)
	if err != nil {
		var failed *wire.Error
		if !errors.As(err, &failed) {
			c.breakOff()
		}
		return err
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return &wire.MalformedResponse{Err: err}
	}
	return nil
}

// exchange sends a payload and reads one frame. sent is true once the whole frame
// was handed to the kernel.
func (c *Client) exchange(ctx context.Context, payload []byte) (frame []byte, sent bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.AnswerTimeout, ErrNoAnswer)
	defer cancel()
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.conn.SetDeadline(time.Unix(1, 0)) // a time in the past: wakes the current read or write
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken
			if err == nil { // the answer was faster than the end of ctx: undo the deadline
				err = c.conn.SetDeadline(time.Time{})
			}
		}
	}()
	if err := wire.WriteFrame(c.conn, payload); err != nil {
		// The server may have sent the reason before it closed the connection.
		if frame, readErr := c.reader.ReadFrame(); readErr == nil {
			return frame, false, nil
		}
		return nil, false, causeOf(ctx, err)
	}
	frame, err = c.reader.ReadFrame()
	if err != nil {
		return nil, true, causeOf(ctx, err)
	}
	return frame, true, nil
}

// causeOf returns the reason why the context ended, if it has ended, and else err.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (c *Client) breakOff() {
	c.broken = true
	// The connection is lost: an error of Close has no consequence.
	_ = c.conn.Close()
}
