package sim

import (
	"slices"
	"time"

	"lockstep/core/outflow"
	"lockstep/sim/kernel"
)

// outputs is the daemon's socket for output, as in package edge/outputs: it brings readers and the processes of jobs together.
type outputs struct {
	thread  *kernel.Thread
	readers []*outputConn // that wait, by age
	lines   []*outputLine // of processes, by age
}

// outputHello is the first line of a reader's connection.
type outputHello struct {
	job              int64
	at               outflow.Position // what the reader has already
	follows, relayed bool
}

// outputConn is a reader's connection. The daemon has it first, and passes it to the process of the job, from when on the daemon has no
// part in it. What was sent before its end arrives.
type outputConn struct {
	hello   outputHello
	reader  *outputReader
	outputs *outputs  // nil: no daemon has it
	known   bool      // the daemon has read the hello
	since   time.Time // of that
	relay   *relay    // nil: no process has it
	id      uint64    // at the source of the relay
	sends   bool      // a step of the process sends the next frame
	inbox   []outflow.Frame
	ended   bool // nothing comes after the inbox
	closed  bool // by the reader
}

// outputLine is the connection of a job's process on which the daemon passes readers.
type outputLine struct {
	relay   *relay
	outputs *outputs // nil: the daemon has ended
	known   bool     // the daemon has read the hello
	over    bool     // the process has ended the connection, or is gone
	passed  []*outputConn
}

// dialOutput is the socket of the node's daemon; nil: none accepts connections.
func (n *node) dialOutput() *outputs {
	d := n.daemon
	if d == nil || !d.ready || d.stopping {
		return nil
	}
	if d.outputs == nil {
		d.outputs = &outputs{thread: kernel.NewThread(n.world.kernel, d.life)}
	}
	return d.outputs
}

func (o *outputs) addReader(c *outputConn) {
	c.outputs = o
	o.readers = append(o.readers, c)
	o.thread.Do(func() {
		c.known, c.since = true, c.reader.client.world.clock.Now()
		o.meet(c.hello.job)
	})
}

func (o *outputs) addProcess(r *relay) *outputLine {
	l := &outputLine{relay: r, outputs: o}
	o.lines = append(o.lines, l)
	o.thread.Do(func() { l.known = true; o.meet(r.process.job) })
	return l
}

// meet passes the readers that wait for a job to its process, if both are there.
func (o *outputs) meet(job int64) {
	for _, l := range slices.Backward(o.lines) {
		if !l.known || l.relay.process.job != job {
			continue
		}
		for _, c := range slices.Clone(o.readers) {
			if c.known && c.hello.job == job {
				o.dropReader(c)
				l.pass(c)
			}
		}
		return
	}
}

func (o *outputs) dropReader(c *outputConn) {
	c.outputs = nil
	o.readers = slices.DeleteFunc(o.readers, func(other *outputConn) bool { return other == c })
}

func (o *outputs) dropLine(l *outputLine) {
	o.lines = slices.DeleteFunc(o.lines, func(other *outputLine) bool { return other == l })
}

// end ends the connections that the daemon has. Both sides connect again.
func (o *outputs) end() {
	if o == nil {
		return
	}
	for _, c := range slices.Clone(o.readers) {
		o.dropReader(c)
		c.lost()
	}
	for _, l := range o.lines {
		l.outputs = nil
		l.relay.do(func() { l.relay.lineLost(l) })
	}
}

// pass passes a reader to the process, which takes it in a step of its own.
func (l *outputLine) pass(c *outputConn) {
	if l.over {
		c.lost()
		return
	}
	l.passed = append(l.passed, c)
	l.relay.do(func() {
		if !l.over && slices.Contains(l.passed, c) {
			l.passed = l.passed[1:]
			l.relay.attach(c)
		}
	})
}

// hangUp is called by the process, or at its end.
func (l *outputLine) hangUp() {
	l.over = true
	for _, c := range l.passed {
		c.lost()
	}
	l.passed = nil
	if o := l.outputs; o != nil {
		o.thread.Do(func() { o.dropLine(l) })
	}
}

// lost ends the connection from the other side.
func (c *outputConn) lost() {
	c.ended = true
	c.reader.wake()
}

// deliver sends a frame to the reader.
func (c *outputConn) deliver(f outflow.Frame) {
	f.Output = slices.Clone(f.Output)
	c.inbox = append(c.inbox, f)
	c.reader.wake()
}

// ack tells the process what the reader has taken.
func (c *outputConn) ack(sum int64) {
	if r := c.relay; r != nil {
		r.do(func() { r.acked(c, sum) })
	}
}

// close is called by the reader.
func (c *outputConn) close() {
	c.closed = true
	switch {
	case c.outputs != nil:
		c.outputs.dropReader(c)
	case c.relay != nil:
		r := c.relay
		r.do(func() { r.gone(c) })
	}
}
