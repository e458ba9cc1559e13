package sim

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"lockstep/core/wire"
)

// caller makes calls, one at a time, over a connection that it makes when
// it needs one. It belongs to a client or to a job process.
type caller struct {
	world  *World
	node   *node    // to which it connects
	thread *thread  // of whom it belongs to
	wconf  bool     // calls the lock manager, not the queue
	conn   *simConn // nil: none
	done   func(json.RawMessage, error)
	calls  int  // so far
	drops  bool // hangs up now and then
	// roams: where it is told that this is not the master it tries the next node.
	roams   bool
	roaming bool        // it is about to
	stop    func() bool // the timer of the call at hand
}

// What a call that got no answer ends with. Only the first says that nothing
// has happened.
var (
	errNoDaemon = errors.New("no daemon answers")
	errLost     = errors.New("the connection was lost")
	errNoAnswer = errors.New("the server did not answer in time")
	errHungUp   = errors.New("the client has hung up")
)

// call sends a request; done gets what comes back, or one of the errors above,
// or a *wire.Error or *wire.RequestError.
func (c *caller) call(method string, args []any, patience time.Duration, done func(json.RawMessage, error)) {
	if !c.roams {
		c.callHere(method, args, patience, done)
		return
	}
	tries := 0
	var try func()
	try = func() {
		c.roaming = false
		c.callHere(method, args, patience, func(result json.RawMessage, err error) {
			if err != nil {
				c.roam(err)
			}
			if tries++; !isNotMaster(err) || tries > roamMost {
				done(result, err)
				return
			}
			c.roaming = true
			c.world.clock.after(roamPause, c.thread.life, func() { c.thread.do(try) })
		})
	}
	try()
}

// A client looks for the master so often, with pauses.
const (
	roamMost  = 200
	roamPause = 300 * time.Millisecond
)

func isNotMaster(err error) bool {
	var failed *wire.Error
	return errors.As(err, &failed) && failed.Class == "NotMaster"
}

// roam goes to another node, unless this one has given an answer of substance.
func (c *caller) roam(err error) {
	var failed *wire.Error
	if errors.As(err, &failed) && failed.Class != "NotMaster" {
		return
	}
	c.hangUp()
	at := slices.Index(c.world.nodes, c.node)
	c.node = c.world.nodes[(at+1)%len(c.world.nodes)]
}

// callHere is call, to this node.
func (c *caller) callHere(method string, args []any, patience time.Duration, done func(json.RawMessage, error)) {
	if c.done != nil {
		panic("sim: a caller makes one call at a time")
	}
	frame, err := wire.EncodeRequest(method, args)
	if err != nil {
		panic(err)
	}
	if c.conn == nil {
		c.conn = c.node.dial(c)
	}
	if c.conn == nil {
		c.thread.do(func() { done(nil, errNoDaemon) })
		return
	}
	c.done = done
	c.calls++
	conn := c.conn
	c.stop = c.world.clock.after(patience, c.thread.life, func() {
		c.thread.do(func() {
			if c.conn == conn {
				c.hangUp()
				c.finish(nil, errNoAnswer)
			}
		})
	})
	if c.drops {
		c.maybeDrop()
	}
	conn.send(frame)
}

// maybeDrop has the caller hang up while it waits.
func (c *caller) maybeDrop() {
	after, steps, does := c.world.chaos.hangsUp()
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
			c.thread.do(drop)
		default:
			c.hangUp()
			c.finish(nil, errHungUp)
		}
	}
	if after > 0 {
		c.world.clock.after(after, c.thread.life, func() { c.thread.do(drop) })
		return
	}
	c.thread.do(drop)
}

func (c *caller) answered(from *simConn, frame []byte) {
	c.thread.do(func() {
		if c.conn != from {
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

func (c *caller) lost(from *simConn) {
	c.thread.do(func() {
		if c.conn == from {
			c.conn = nil
			c.finish(nil, errLost)
		}
	})
}

func (c *caller) finish(result json.RawMessage, err error) {
	if c.done == nil {
		return
	}
	done := c.done
	c.done = nil
	c.stop()
	done(result, err)
}

// giveUp drops the call at hand, and the connection with it: nobody hears of it.
func (c *caller) giveUp() {
	if c.done != nil {
		c.done = nil
		c.stop()
		c.hangUp()
	}
}

func (c *caller) hangUp() {
	if c.conn != nil {
		conn := c.conn
		c.conn = nil
		conn.hangUp()
	}
}
