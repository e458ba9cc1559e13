package sim

import (
	"time"

	"lockstep/core/outflow"
	"lockstep/sim/kernel"
)

// outputReader is a client that reads the output of a job beside the log, as the command line does: it connects until a process takes it,
// and says after each frame that it has taken it. One that is relayed connects again at its place.
type outputReader struct {
	client   *client
	thread   *kernel.Thread
	hello    outputHello
	plan     readingPlan
	conn     *outputConn // nil: it is not connected
	received outflow.Received
	frames   int    // read so far
	busy     bool   // the last frame is not taken yet
	resume   func() // ends its stall; nil: it is not in one that lasts
	over     bool
	done     func()
}

// readingPlan is what a reader does beside reading.
type readingPlan struct {
	pause    time.Duration // after each frame
	stallAt  int           // it takes nothing more after so many frames; 0: never
	stall    time.Duration // for so long; 0: until resume
	vanishAt int           // it ends after so many frames; 0: never
	breaks   int           // its connection ends after so many frames, and again; it is relayed then; 0: never
	away     time.Duration // until it connects again
}

// readerPause is as in the command line.
const readerPause = 500 * time.Millisecond

// readOutput begins to read the output of a job. done is called when nothing more will come.
func (c *client) readOutput(job int64, follows bool, plan readingPlan, done func()) *outputReader {
	r := &outputReader{client: c, thread: kernel.NewThread(c.world.kernel, c.world.life), plan: plan, done: done,
		hello: outputHello{job: job, follows: follows, relayed: plan.breaks > 0}}
	r.connect()
	return r
}

func (r *outputReader) later(d time.Duration, f func()) {
	r.client.world.clock.After(d, r.client.world.life, func() { r.thread.Do(f) })
}

func (r *outputReader) connect() {
	if r.over || r.conn != nil {
		return
	}
	o := r.client.rpc.node.dialOutput()
	if o == nil {
		r.later(readerPause, r.connect)
		return
	}
	r.hello.at = r.received.At
	r.conn = &outputConn{hello: r.hello, reader: r}
	o.addReader(r.conn)
}

// wake makes the reader look at its connection.
func (r *outputReader) wake() { r.thread.Do(r.read) }

func (r *outputReader) read() {
	c := r.conn
	switch {
	case c == nil || r.busy:
		return
	case len(c.inbox) > 0:
		f := c.inbox[0]
		c.inbox = c.inbox[1:]
		r.take(c, f)
	case c.ended:
		r.client.world.notify(readerCutOff{r, c})
		r.lost()
	}
}

func (r *outputReader) take(c *outputConn, f outflow.Frame) {
	gap, err := r.received.Take(f)
	r.frames++
	r.busy = true
	r.client.world.notify(outputRead{r, f, gap, err})
	if gap != (outflow.Position{}) {
		r.tracef("is told that %d and %d bytes are missing", gap.Stdout, gap.Stderr)
	}
	if f.Ends() || err != nil {
		at, missing := r.received.At, r.received.Missing
		r.end("has read %d and %d bytes to the end", at.Stdout-missing.Stdout, at.Stderr-missing.Stderr)
		return
	}
	next := func() {
		r.resume, r.busy = nil, false
		if r.conn == c {
			c.ack(r.received.At.Sum())
			r.read()
		}
	}
	switch p := r.plan; {
	case r.frames == p.vanishAt:
		r.end("vanishes")
	case p.breaks > 0 && r.frames%p.breaks == 0:
		c.close()
		r.conn, r.busy = nil, false
		r.later(p.away, r.connect)
	case r.frames == p.stallAt && p.stall == 0:
		r.tracef("stalls")
		r.resume = next
	case r.frames == p.stallAt:
		r.tracef("stalls for %v", p.stall)
		r.later(p.stall, next)
	case p.pause > 0:
		r.later(p.pause, next)
	default:
		r.thread.Do(next)
	}
}

// lost is called when the connection has ended without the end of the output.
func (r *outputReader) lost() {
	r.conn = nil
	if r.frames == 0 || r.hello.relayed {
		r.later(readerPause, r.connect)
		return
	}
	r.end("loses its connection")
}

// jobEnded ends a stall, and soon the wait for a process that takes the reader.
func (r *outputReader) jobEnded() {
	if r.resume != nil {
		r.thread.Do(r.resume)
	}
	r.later(streamPatience, func() {
		if !r.over && (r.conn == nil || r.conn.relay == nil) {
			r.end("has waited for long enough")
		}
	})
}

// streamPatience is as in the command line.
const streamPatience = 35 * time.Second

func (r *outputReader) end(how string, args ...any) {
	if r.over {
		return
	}
	r.over = true
	if r.conn != nil {
		r.conn.close()
		r.conn = nil
	}
	r.tracef(how, args...)
	r.done()
}

func (r *outputReader) tracef(format string, args ...any) {
	what := "a reader"
	if r.hello.follows {
		what = "the follower"
	}
	r.client.tracef(what+" of job %d "+format, append([]any{r.hello.job}, args...)...)
}
