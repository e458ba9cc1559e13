package sim

import (
	"bytes"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/core/access"
	"lockstep/core/budget"
	"lockstep/sim/kernel"
)

// simConn is the daemon's end of a client connection, which is a goroutine in production. It
// reads a request, waits for its answer and sends it, in a loop.
type simConn struct {
	daemon  *daemon
	thread  *kernel.Thread
	to      *actor.PID // nil: not served yet
	from    *rpcClient // whose connection it is
	rpc     *rpcClient // the same; nil: the client has gone
	request []byte     // has arrived and was not read yet
	reading bool
	closing bool

	slot   *budget.Slot  // nil: the daemon has no entrance
	client budget.Client // whom the slot counts for
	phase  budget.Phase
}

var _ conn.Conn = (*simConn)(nil)

// Serve starts to read requests, for the actor to. If the connection is closed already, the actor is told so.
func (c *simConn) Serve(to *actor.PID) {
	if c.closing {
		c.thread.Do(func() { c.daemon.env.System().Root.Send(to, &conn.Closed{}) })
		return
	}
	c.to, c.reading = to, true
	c.read()
}

func (c *simConn) read() {
	switch {
	case !c.reading || c.closing:
	case c.request != nil:
		frame := c.request
		c.request, c.reading = nil, false
		received := c.receivedFrame(frame)
		c.daemon.entrance.move(c, budget.Working)
		c.thread.Do(func() { c.deliver(received) })
	case c.rpc == nil:
		c.reading = false
		c.daemon.entrance.leave(c)
		c.thread.Do(func() { c.deliver(&conn.Closed{}) })
	}
}

// receivedFrame is a request with what the socket knows of its client, also after that has gone: the port of nodes knows nothing, and
// believes the node.
func (c *simConn) receivedFrame(frame []byte) *conn.Received {
	if c.from.tunnel != nil {
		return &conn.Received{Frame: frame, From: access.Unknown(), Forwarded: true}
	}
	as := c.from.account
	if as == nil {
		as = daemonAccount
	}
	from := as.identity()
	from.Program, from.Daemon = c.from.peer.Program, c.from.console
	return &conn.Received{Frame: frame, By: as.by(), From: from}
}

func (c *simConn) deliver(message any) { c.daemon.env.System().Root.Send(c.to, message) }

// Reserve is part of conn.Conn. The daemon's memory is not simulated.
func (c *simConn) Reserve(int) bool { return true }

// Answer sends the answer to the current request, to some clients slowly. After Close it does nothing.
func (c *simConn) Answer(parts ...[]byte) {
	if c.closing {
		return
	}
	frame := bytes.Join(parts, nil)
	c.thread.Do(func() {
		if c.rpc != nil && c.rpc.takesAfter > 0 {
			c.sendSlowly(frame, c.rpc.takesAfter)
			return
		}
		c.passAnswer(frame)
	})
}

func (c *simConn) passAnswer(frame []byte) {
	if c.rpc != nil {
		c.rpc.answered(c, frame)
	}
	c.daemon.entrance.move(c, budget.Idle)
	c.reading = true
	c.read()
}

// Close ends the connection after the answers are sent. A second call does nothing.
func (c *simConn) Close() {
	if c.closing {
		return
	}
	c.closing = true
	c.thread.Do(func() {
		if c.reading {
			c.deliver(&conn.Closed{})
		}
		c.drop()
	})
}

// servedMax is as in socket.
const servedMax = 10 * time.Second

// closeUnserved closes a connection that no gateway serves. One that is served stays.
func (c *simConn) closeUnserved() {
	if c.to == nil && !c.closing {
		c.closing = true
		c.drop()
	}
}

// drop removes the connection and gives its slot back; the client notices.
func (c *simConn) drop() {
	c.daemon.entrance.leave(c)
	for i, other := range c.daemon.conns {
		if other == c {
			c.daemon.conns = append(c.daemon.conns[:i:i], c.daemon.conns[i+1:]...)
			break
		}
	}
	if c.rpc != nil {
		c.rpc.lost(c)
	}
}

// send delivers a client's request.
func (c *simConn) send(frame []byte) {
	c.request = frame
	c.read()
}

// hangUp is called when the client has gone. The server reads that.
func (c *simConn) hangUp() {
	c.rpc = nil
	c.read()
}

// simDaemonUser is the user of the simulated daemons.
var simDaemonUser = access.Submitter{UID: 1000, Name: "sim"}
