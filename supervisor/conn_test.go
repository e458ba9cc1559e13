package supervisor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/core/access"
	"lockstep/core/paths"
	"lockstep/core/wire"
)

// fakeConn is a client's connection. The client is another goroutine of the test.
type fakeConn struct {
	send    func(to *actor.PID, msg any)
	answers chan []byte
	done    chan struct{}

	mu     sync.Mutex
	to     *actor.PID
	early  []byte // a request that came before Serve
	closed bool   // nothing is sent after this: actors of the next daemon may have the same names
}

func (c *fakeConn) Serve(to *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.send(to, &conn.Closed{})
		return
	}
	c.to = to
	if c.early != nil {
		c.send(to, &conn.Received{Frame: c.early, From: access.DaemonItself(0)})
	}
}

func (c *fakeConn) request(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
	case c.to == nil:
		c.early = frame
	default:
		c.send(c.to, &conn.Received{Frame: frame, From: access.DaemonItself(0)})
	}
}

func (c *fakeConn) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to != nil && !c.closed {
		c.send(c.to, &conn.Closed{})
	}
}

func (c *fakeConn) Reserve(int) bool { return true }

func (c *fakeConn) Answer(parts ...[]byte) { c.answers <- bytes.Join(parts, nil) }

func (c *fakeConn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
}

// closeUnserved ends a connection that no actor serves.
func (c *fakeConn) closeUnserved() {
	c.mu.Lock()
	served := c.to != nil
	c.mu.Unlock()
	if !served {
		c.Close()
	}
}

// client makes calls. It opens a new connection when the last one has ended.
type client struct {
	w    *world
	conn *fakeConn
}

// errGone: the connection has ended, or no answer came in time. The outcome of the request
// is unknown.
var errGone = errors.New("the connection has ended")

// clientMax is how long a client waits for an answer (queue.md 1.1).
const clientMax = 180 * time.Second

func (c *client) call(method string, args ...any) (json.RawMessage, error) {
	if c.conn == nil {
		c.conn = c.w.dial()
	}
	frame, err := wire.EncodeRequest(method, args)
	if err != nil {
		panic(err)
	}
	c.conn.request(frame)
	late := make(chan struct{})
	stop := c.w.clock.AfterFunc(clientMax, func() { close(late) })
	defer stop()
	select {
	case answer := <-c.conn.answers:
		return wire.DecodeResponse(answer)
	case <-c.conn.done:
		select {
		case answer := <-c.conn.answers: // came before the end
			c.conn = nil
			return wire.DecodeResponse(answer)
		default:
		}
	case <-late:
		c.w.slow(method)
	}
	c.conn.disconnect()
	c.conn = nil
	return nil, errGone
}

// callUntilAnswered repeats a call until it gets a result or a final error. A request that a
// crashed actor had accepted is answered after a while with an error that asks for a retry.
func (c *client) callUntilAnswered(method string, args ...any) (json.RawMessage, error) {
	for {
		result, err := c.call(method, args...)
		if !errors.Is(err, errGone) && (err == nil || !strings.Contains(err.Error(), "too busy")) {
			return result, err
		}
		c.w.pause(100 * time.Millisecond)
	}
}

// Actors of the next daemon have the same names as those of the former one. A connection to
// the former daemon must not reach them: its request would be answered over a connection of
// another client.
func TestAConnectionEndsWithItsDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kittest.New(t), map[string]string{paths.SerialPath: "0\n"}, time.Second)
		connect := func() *fakeConn {
			w.drive(w.isReady)
			c := w.dial()
			w.env.Settle()
			return c
		}
		former := connect()
		w.env.System().Root.Stop(w.daemon.Root)
		w.env.Settle()
		w.reboot()
		current := connect()
		require.Equal(t, former.to.Id, current.to.Id)

		frame, err := wire.EncodeRequest("QueryConfigValues", []any{[]string{"drain_flag"}})
		require.NoError(t, err)
		former.request(frame)
		w.env.Settle()
		require.Empty(t, current.answers)
		former.disconnect()
		w.env.Settle()
		current.request(frame)
		w.env.Settle()
		require.Len(t, current.answers, 1)
		w.stop()
	})
}
