package sim

import (
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
	"lockstep/core/rawjson"
	"lockstep/sim/kernel"
)

// Limits of the output of a simulated process, which a command reaches with few bytes.
const (
	pipeMax      = 1000 // bytes in a pipe between a command and its process
	relayAfter   = 1500 // bytes of a job before its process takes readers
	followedLogs = 2000 // bytes in the log of an opcode of a job that is followed
	frameMax     = 250  // bytes in a frame
	tellAfter    = time.Second
	endless      = 1000 * time.Hour
)

func outputLimits(stalled time.Duration) outflow.Limits {
	return outflow.Limits{Capacity: 3000, InFlight: 800, Frames: 4, Ending: 4 * pipeMax, Readers: 4, Stalled: stalled,
		Absent: 30 * time.Second}
}

// relay brings the output of a simulated process to its readers by an outflow.Source, as relay in lockstep-job does.
type relay struct {
	process *process
	source  *outflow.Source
	thread  *kernel.Thread
	opened  bool // it takes readers
	written int
	line    *outputLine // nil: there is none
	backoff jobproc.Backoff
	readers []*outputConn
	waiting []*relayWrite // at most one of each stream
	told    time.Time     // since when output waits, as the daemon was told; zero: it does not
	stop    func() bool   // stops the timer

	start      func() // of a command that waits until there is room; nil: none does
	startWaits bool   // it has found none
	final      func() // runs when the rest was passed on; nil: the job has not ended
	ended      bool
	awaits     bool // the end waits for the follower, because the log lacks output
}

// relayWrite is output that the source has not taken yet. The process reads no more of its stream before done.
type relayWrite struct {
	stream outflow.Stream
	output []byte
	done   func()
}

func newRelay(p *process, j *jobproc.Process) *relay {
	spec := j.Spec(0)
	stalled := jobproc.OutputWait
	if spec.OutputWait > 0 {
		stalled = time.Duration(spec.OutputWait * float64(time.Second))
	}
	limits := outputLimits(stalled)
	if p.machine.world.mutations.EndlessReader {
		limits.Stalled, limits.Absent = endless, endless
	}
	return &relay{process: p, source: outflow.NewSource(limits, outflow.After(j.LoggedBefore()), spec.Followed),
		thread:  kernel.NewThread(p.machine.world.kernel, p.life),
		backoff: jobproc.DaemonBackoff(), stop: func() bool { return false }}
}

// do adds a step. A process that hangs makes none.
func (r *relay) do(f func()) {
	r.thread.Do(func() {
		if !r.process.hung {
			f()
		}
	})
}

func (r *relay) world() *World  { return r.process.machine.world }
func (r *relay) now() time.Time { return r.world().clock.Now() }

// write adds output, and calls done when all of it has found room.
func (r *relay) write(stream outflow.Stream, output []byte, done func()) {
	r.written += len(output)
	if r.written > relayAfter {
		r.open()
	}
	switch m := r.world().mutations; {
	case m.LosesPieces && r.written%5 == 0:
		output = output[:len(output)/2]
	case m.DoublesPieces && r.written%5 == 0:
		output = append(slices.Clone(output), output...)
	}
	r.world().notify(outputOffered{r.process, len(output)})
	r.waiting = append(r.waiting, &relayWrite{stream, output, done})
	r.goOn()
}

// open begins to take readers, unless it has.
func (r *relay) open() {
	if r.opened {
		return
	}
	r.opened = true
	r.source.Open(r.now())
	r.connect()
}

// connect connects to the daemon, again and again.
func (r *relay) connect() {
	if r.ended || r.process.hung {
		return
	}
	if o := r.process.machine.node.dialOutput(); o != nil {
		r.backoff.Reset()
		r.line = o.addProcess(r)
		return
	}
	r.world().clock.After(r.backoff.Pause(), r.process.life, func() { r.do(r.connect) })
}

func (r *relay) lineLost(l *outputLine) {
	l.over, r.line = true, nil
	r.world().clock.After(r.backoff.Pause(), r.process.life, func() { r.do(r.connect) })
}

// goOn does all that is possible after an event: output finds room, readers get it, the end comes.
func (r *relay) goOn() {
	for len(r.waiting) > 0 {
		w := r.waiting[0]
		room := r.source.Room(r.now())
		r.tell()
		if room == 0 {
			if !r.opened {
				r.open()
			}
			break
		}
		n := min(room, len(w.output))
		r.source.Add(w.stream, w.output[:n])
		r.world().notify(outputKept{r.process, n})
		if w.output = w.output[n:]; len(w.output) == 0 {
			r.waiting = r.waiting[1:]
			w.done()
		}
	}
	if start := r.start; start != nil {
		room := r.source.Room(r.now())
		r.tell()
		if room > 0 {
			r.start = nil
			if r.startWaits {
				r.startWaits = false
				r.world().notify(outputKept{r.process, 1})
			}
			start()
		}
	}
	if r.final != nil && !r.ended && (!r.awaits || !r.source.Expects()) {
		r.passRest()
	}
	for _, c := range r.readers {
		r.send(c)
	}
	r.arm()
}

// arm sets the timer while output, or the end, waits.
func (r *relay) arm() {
	r.stop()
	if r.ended || len(r.waiting) == 0 && r.final == nil && r.start == nil {
		return
	}
	wake, blocked := r.source.Deadline(), r.source.Blocked()
	if tell := blocked.Add(tellAfter); !blocked.IsZero() && r.told.IsZero() && (wake.IsZero() || tell.Before(wake)) {
		wake = tell
	}
	if wake.IsZero() {
		return
	}
	r.stop = r.world().clock.After(wake.Sub(r.now()), r.process.life, func() {
		r.do(func() {
			r.source.Tick(r.now())
			r.goOn()
		})
	})
}

// tell passes on what the source says of the wait for its reader.
func (r *relay) tell() {
	blocked, complaint := r.source.Blocked(), r.source.Complaint()
	if !blocked.IsZero() && r.now().Sub(blocked) < tellAfter {
		blocked = r.told
	}
	s := r.process.shell
	if !blocked.Equal(r.told) {
		r.told = blocked
		r.process.tracef("output waits for its reader: %v", !blocked.IsZero())
		s.process.then(func() { s.event(func(now time.Time) jobproc.Actions { return s.jobproc.ReaderAwaited(now, blocked) }) })
	}
	if complaint != "" {
		r.process.tracef("%s", complaint)
		r.world().notify(readerGivenUp{r.process})
		s.log(jobproc.LogEntry{Kind: job.LogNote, Payload: rawjson.Quote(complaint)})
	}
}

// attach serves a reader.
func (r *relay) attach(c *outputConn) {
	id, err := r.source.Attach(c.hello.at, c.hello.follows, c.hello.relayed)
	if err != nil || r.ended {
		c.lost() // it gets the rest from the log
		return
	}
	c.relay, c.id = r, id
	r.readers = append(r.readers, c)
	r.world().notify(readerAttached{r.process, c})
	if c.closed {
		r.do(func() { r.gone(c) })
	}
	r.goOn()
}

// send sends a reader the next frame, if there is one, in a step.
func (r *relay) send(c *outputConn) {
	if c.sends {
		return
	}
	c.sends = true
	r.do(func() {
		c.sends = false
		if r.ended || !slices.Contains(r.readers, c) {
			return
		}
		if f, ok := r.source.Next(c.id, make([]byte, frameMax)); ok {
			c.deliver(f)
			r.send(c)
		}
	})
}

func (r *relay) acked(c *outputConn, sum int64) {
	if r.ended || !slices.Contains(r.readers, c) {
		return
	}
	if err := r.source.Ack(c.id, sum); err != nil {
		r.world().notify(ackRefused{c, err})
		r.gone(c)
		return
	}
	r.goOn()
}

// gone removes a reader whose connection has ended.
func (r *relay) gone(c *outputConn) {
	if r.ended || !slices.Contains(r.readers, c) {
		return
	}
	r.source.Detach(c.id, r.now())
	r.readers = slices.DeleteFunc(r.readers, func(other *outputConn) bool { return other == c })
	c.lost()
	r.world().notify(readerDetached{r.process, c})
	r.goOn()
}

// begin calls start when the follower lacks no more than what is kept for it.
func (r *relay) begin(start func()) {
	r.source.Ending(false)
	r.start = start
	if r.source.Room(r.now()) == 0 {
		r.startWaits = true
		r.world().notify(outputOffered{r.process, 1}) // the command stands for a byte that finds no room
		if !r.opened {
			r.open()
		}
	}
	r.goOn()
}

// ending says that the opcode's command has ended.
func (r *relay) ending() {
	r.source.Ending(true)
	r.goOn()
}

// finish gives each reader the rest, and calls then. It waits only for the follower, and only if the log lacks output.
func (r *relay) finish(logLacksOutput bool, then func()) {
	if logLacksOutput && r.source.Expects() {
		r.open()
	}
	if !r.opened {
		r.ended = true
		then()
		return
	}
	r.final, r.awaits = then, logLacksOutput
	if r.awaits && r.source.Expects() {
		r.world().notify(endOffered{r.process})
	}
	r.goOn()
}

func (r *relay) passRest() {
	r.ended = true
	r.source.End()
	for _, c := range r.readers {
		if !r.world().mutations.DropsRest {
			r.source.Rest(c.id, make([]byte, outflow.FrameMax), c.deliver)
		}
	}
	r.hangUp()
	r.final()
}

// hangUp ends all connections, also at the end of the process.
func (r *relay) hangUp() {
	r.ended = true
	r.stop()
	if r.line != nil {
		r.line.hangUp()
		r.line = nil
	}
	for _, c := range r.readers {
		c.lost()
	}
	r.readers = nil
}

// commandOutput is the pipes of a command, and what reads them in its process: each piece goes to the log and then to the relay.
type commandOutput struct {
	shell   *shell
	streams [2]pipedStream
	room    func() // the command waits for room in a pipe; nil: it does not
	read    func() // the command has ended, and all of its output was read; nil: it has not ended
}

type pipedStream struct {
	pieces [][]byte
	size   int
	reads  bool // a piece was read, and is not in the relay yet
}

var streamKinds = [2]string{job.LogStdout, job.LogStderr}

// hasRoom reports whether a piece finds room in its pipe.
func (o *commandOutput) hasRoom(stream outflow.Stream, piece []byte) bool {
	return o.streams[stream].size+len(piece) <= pipeMax
}

func (o *commandOutput) write(stream outflow.Stream, piece []byte) {
	s := &o.streams[stream]
	s.pieces, s.size = append(s.pieces, piece), s.size+len(piece)
	o.readNext(stream)
}

func (o *commandOutput) readNext(stream outflow.Stream) {
	s := &o.streams[stream]
	if s.reads {
		return
	}
	if len(s.pieces) == 0 {
		o.checkEnd()
		return
	}
	piece := s.pieces[0]
	s.pieces, s.size, s.reads = s.pieces[1:], s.size-len(piece), true
	if room := o.room; room != nil {
		o.room = nil
		room()
	}
	o.shell.logThen(func() {
		o.shell.relay.write(stream, piece, func() {
			s.reads = false
			o.readNext(stream)
		})
	}, jobproc.LogEntry{Kind: streamKinds[stream], Output: slices.Clone(piece)})
}

// finish calls then when all output of the command was read, which has ended.
func (o *commandOutput) finish(then func()) {
	o.read = then
	o.shell.relay.ending()
	o.checkEnd()
}

func (o *commandOutput) checkEnd() {
	then := o.read
	if then == nil || slices.ContainsFunc(o.streams[:], func(s pipedStream) bool { return s.reads || len(s.pieces) > 0 }) {
		return
	}
	o.read = nil
	then()
}
