// Package conntest has the client of a gateway for tests of actors: a [Conn] that keeps the answers, and a [Client]
// that makes calls through it. The test decides when each message is sent; nothing waits for an answer.
package conntest

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/core/access"
)

// Conn is a connection whose client is the test. The zero value is an open connection that no actor serves yet.
type Conn struct {
	mu      sync.Mutex
	memory  int // for an answer, in bytes; 0: any
	server  *actor.PID
	answers []string
	closed  int // calls of Close
}

// Serve is part of conn.Conn.
func (c *Conn) Serve(to *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = to
}

// Reserve is part of conn.Conn. It grants what the bound that a test has set allows.
func (c *Conn) Reserve(size int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory == 0 || size <= c.memory
}

// SetMemory sets how large an answer may become, in bytes.
func (c *Conn) SetMemory(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory = size
}

// Answer is part of conn.Conn. It keeps the answer for the test.
func (c *Conn) Answer(parts ...[]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, string(bytes.Join(parts, nil)))
}

// Close is part of conn.Conn.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
}

// Server is the actor that serves the connection, nil before Serve.
func (c *Conn) Server() *actor.PID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// Answers returns the answers that the actor has sent and that no call of Answer or Last has taken.
func (c *Conn) Answers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.answers)
}

// Closes is how often Close was called.
func (c *Conn) Closes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *Conn) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := c.answers
	c.answers = nil
	return answers
}

// Client plays the client of one connection in a test, which runs in kittest.Run: it sends requests and takes the answers.
type Client struct {
	Conn *Conn
	From access.Identity // who sends the requests; Connect sets the daemon itself
	t    testing.TB
	env  *kittest.Env
}

// Connect opens a connection at a gateway actor and returns its client.
func Connect(t testing.TB, e *kittest.Env, gateway *actor.PID) *Client {
	c := &Client{Conn: &Conn{}, From: access.DaemonItself(0), t: t, env: e}
	e.Send(gateway, &conn.Opened{Conn: c.Conn})
	e.Settle()
	return c
}

// Tell sends a message to the connection's actor and waits until all actors are idle.
func (c *Client) Tell(m any) {
	c.t.Helper()
	require.NotNil(c.t, c.Conn.Server(), "no actor serves the connection")
	c.env.Send(c.Conn.Server(), m)
	c.env.Settle()
}

// Call sends a request to the connection's actor. args is a JSON list. The answer is read with Last.
func (c *Client) Call(method, args string) {
	c.t.Helper()
	c.Tell(&conn.Received{Frame: []byte(`{"method": "` + method + `", "args": ` + args + `}`), From: c.From})
}

// Answer takes the answer to the last call. It fails the test if there is not exactly one.
func (c *Client) Answer() string {
	c.t.Helper()
	c.env.Settle()
	answers := c.Conn.take()
	require.Len(c.t, answers, 1)
	return answers[0]
}

// Last is the last answer that was not taken. Without one the test fails.
func (c *Client) Last() string {
	c.t.Helper()
	c.env.Settle()
	answers := c.Conn.Answers()
	require.NotEmpty(c.t, answers)
	return answers[len(answers)-1]
}

// Silent fails the test if there is an answer, or the connection is closed.
func (c *Client) Silent() {
	c.t.Helper()
	c.env.Settle()
	require.Empty(c.t, c.Conn.Answers())
	require.Zero(c.t, c.Conn.Closes())
}

// Closed reports whether the connection was closed.
func (c *Client) Closed() bool {
	c.env.Settle()
	return c.Conn.Closes() > 0
}

// Asked takes the next message that the neighbour p has received, which must be of type M. It fails the test if another actor than that
// of the connection has sent it.
func Asked[M any](c *Client, p *kittest.Probe) M {
	c.t.Helper()
	m, from := kittest.ExpectFrom[M](p)
	require.True(c.t, from.Equal(c.Conn.Server()), "another actor sent the message")
	return m
}
