package sim

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"lockstep/actors/conn"
	"lockstep/actors/standby"
	"lockstep/core/budget"
	"lockstep/core/wire"
	"lockstep/sim/kernel"
)

// rpcClient makes calls, one at a time, over a connection that it opens when it needs one. It
// belongs to a client or to a job process.
type rpcClient struct {
	world   *World
	node    *node          // to which it connects
	thread  *kernel.Thread // of its owner
	wconf   bool           // calls the gateway of WConfD, not the queue
	peer    conn.Peer      // who it is, as the socket reports it
	console bool           // the call is one of a console of a node
	conn    *simConn       // nil: none
	done    func(json.RawMessage, error)
	calls   int           // number of calls so far
	mayDrop bool          // it hangs up now and then
	as      budget.Client // for the entrance of the daemon
	// account is whose process it is; nil: the daemon's user's.
	account *account
	// forges: each request claims to come from the daemon's user.
	forges bool
	// forwards: it stays at its node, and asks to be forwarded to the master.
	forwards  bool
	forwarded bool    // the master answers at the other end of conn
	tunnel    *tunnel // whose far end it is; nil: none's
	// takesAfter is how long it leaves an answer in the connection.
	takesAfter time.Duration
	// followsMaster says that it tries the next node when a node answers that it is not the
	// master.
	followsMaster bool
	retrying      bool        // a retry is scheduled
	stopTimer     func() bool // of the timer of the current call
}

// Errors of a call without an answer. Only the first says that the request had no effect.
var (
	errNoDaemon       = errors.New("no daemon answers")
	errConnectionLost = errors.New("the connection was lost")
	errNoAnswer       = errors.New("the server did not answer in time")
	errHungUp         = errors.New("the client has hung up")
)

// call sends a request, and calls done with the answer, one of the errors above, a *wire.Error or
// a *wire.RequestError.
func (c *rpcClient) call(method string, args []any, timeout time.Duration, done func(json.RawMessage, error)) {
	if !c.followsMaster {
		c.callNode(method, args, timeout, done)
		return
	}
	tries := 0
	var try func()
	try = func() {
		c.retrying = false
		c.callMaster(method, args, timeout, func(result json.RawMessage, err error) {
			if err != nil {
				c.tryNextNode(err)
			}
			if tries++; !isNotMaster(err) || tries > masterTriesMax {
				done(result, err)
				return
			}
			c.retrying = true
			c.world.clock.After(masterRetryPause, c.thread.Life, func() { c.thread.Do(try) })
		})
	}
	try()
}

// callMaster makes a call to the selected node. If that node is not the master, a client that asks to be forwarded does so, and makes the
// call again.
func (c *rpcClient) callMaster(method string, args []any, timeout time.Duration, done func(json.RawMessage, error)) {
	c.callNode(method, args, timeout, func(result json.RawMessage, err error) {
		if !c.forwards || !isNotMaster(err) {
			done(result, err)
			return
		}
		c.callNode(standby.ForwardMethod, nil, timeout, func(result json.RawMessage, err error) {
			if err != nil {
				done(result, err)
				return
			}
			c.forwarded = true
			c.callNode(method, args, timeout, done)
		})
	})
}

// Number of nodes and pauses with which a client looks for the master.
const (
	masterTriesMax   = 200
	masterRetryPause = 300 * time.Millisecond
)

func isNotMaster(err error) bool {
	var failed *wire.Error
	return errors.As(err, &failed) && failed.Class == "NotMaster"
}

// tryNextNode hangs up and selects another node, unless this one has refused the request itself.
func (c *rpcClient) tryNextNode(err error) {
	var failed *wire.Error
	if errors.As(err, &failed) && failed.Class != "NotMaster" {
		return
	}
	c.hangUp()
	at := slices.Index(c.world.nodes, c.node)
	c.node = c.world.nodes[(at+1)%len(c.world.nodes)]
}

// callNode makes a call to the selected node. done gets its answer, errNoDaemon, or errNoAnswer after timeout.
func (c *rpcClient) callNode(method string, args []any, timeout time.Duration, done func(json.RawMessage, error)) {
	if c.done != nil {
		panic("sim: a caller makes one call at a time")
	}
	frame, err := wire.EncodeRequest(method, args)
	if err != nil {
		panic(err)
	}
	if c.forges {
		frame = wire.WithUser(frame, daemonAccount.by(), daemonAccount.identity().Encode())
	}
	if c.conn == nil {
		c.conn, c.forwarded = c.node.dial(c), false
	}
	if c.conn == nil {
		c.thread.Do(func() { done(nil, errNoDaemon) })
		return
	}
	c.done = c.audited(frame, c.watched(method, args, done))
	c.calls++
	conn := c.conn
	c.stopTimer = c.world.clock.After(timeout, c.thread.Life, func() {
		c.thread.Do(func() {
			if c.conn == conn {
				c.hangUp()
				c.finish(nil, errNoAnswer)
			}
		})
	})
	if c.mayDrop {
		c.scheduleDrop()
	}
	conn.send(frame)
}

// scheduleDrop makes the client hang up while it waits, if the injector says so. Its call then ends with errHungUp.
func (c *rpcClient) scheduleDrop() {
	after, steps, does := c.world.injector.hangsUp()
	if !does {
		return
	}
	calls := c.calls
	var drop func()
	drop = func() {
		switch {
		case c.done == nil || c.calls != calls: // too late
		case steps > 0:
			steps--
			c.thread.Do(drop)
		default:
			c.hangUp()
			c.finish(nil, errHungUp)
		}
	}
	if after > 0 {
		c.world.clock.After(after, c.thread.Life, func() { c.thread.Do(drop) })
		return
	}
	c.thread.Do(drop)
}

func (c *rpcClient) answered(from *simConn, frame []byte) {
	c.thread.Do(func() {
		if c.conn != from {
			return
		}
		if c.tunnel != nil {
			c.tunnel.answered(frame)
			return
		}
		result, err := wire.DecodeResponse(frame)
		var failed *wire.Error
		if err != nil && !errors.As(err, &failed) {
			c.hangUp()
		}
		c.finish(result, err)
	})
}

func (c *rpcClient) lost(from *simConn) {
	c.thread.Do(func() {
		if c.conn == from {
			c.conn = nil
			if c.tunnel != nil {
				c.tunnel.ended()
			}
			c.finish(nil, errConnectionLost)
		}
	})
}

func (c *rpcClient) finish(result json.RawMessage, err error) {
	if c.done == nil {
		return
	}
	done := c.done
	c.done = nil
	c.stopTimer()
	done(result, err)
}

// abandon drops the current call and its connection. Its done is not called.
func (c *rpcClient) abandon() {
	if c.done != nil {
		c.done = nil
		c.stopTimer()
		c.hangUp()
	}
}

func (c *rpcClient) hangUp() {
	if c.conn != nil {
		conn := c.conn
		c.conn = nil
		conn.hangUp()
	}
}
