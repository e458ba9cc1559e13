package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/outflow"
)

// The events of the output of commands.
type (
	// outputWritten: a command has written to its pipe. outputOffered: its process has read output, which it keeps for readers when there is
	// room. outputKept: it keeps so many bytes more.
	outputWritten struct {
		process *process
		stream  outflow.Stream
		bytes   []byte
	}
	outputOffered struct {
		process *process
		bytes   int
	}
	outputKept struct {
		process *process
		bytes   int
	}
	// endOffered: the commands of a process have ended, and the process waits for its follower, who takes what the log lacks.
	endOffered struct{ process *process }
	// readerAttached: a process has taken a reader. readerDetached: it knows that the reader has gone. readerGivenUp: it waits for its
	// follower no longer, and says so.
	readerAttached struct {
		process *process
		conn    *outputConn
	}
	readerDetached struct {
		process *process
		conn    *outputConn
	}
	readerGivenUp struct{ process *process }
	// readerCutOff: the connection of a reader, who has read all that came, has ended without the end of the output.
	readerCutOff struct {
		reader *outputReader
		conn   *outputConn
	}
	// ackRefused: a process has refused what a reader acknowledges.
	ackRefused struct {
		conn *outputConn
		err  error
	}
	// outputRead: a reader has read a frame, and is told that output before it is missing. err is what it finds wrong with the frame.
	outputRead struct {
		reader *outputReader
		frame  outflow.Frame
		gap    outflow.Position
		err    error
	}
)

// checkFollowed: what a reader has read is what the commands of the job have written, without the parts that it was told are missing, and
// at the end there is nothing more. A reader that a process has taken reads to the end of the output if it stays and the process ends in
// order. The follower, for whom commands wait, misses nothing until it has vanished or is given up, and no process ends without a follower
// who waits for output that the log lacks. The log of an ended job has, or says that it lacks, all that was written. A command waits for
// its follower at most as long as the setting says, also for one that comes again, for one who is not there half a minute, and for no other
// reader.
type checkFollowed struct {
	followed map[string]bool // by tag
	jobs     map[int64]*followedJob
	offering []*followedJob // those whose process has output for which there is no room, by age
	readers  map[*outputReader]*[2]int64
	garbled  map[int64]bool
	overtook time.Time // when timers have last overtaken steps
}

func (*checkFollowed) Name() string { return "output reaches its readers" }

// followedJob is a job whose commands write.
type followedJob struct {
	process  *process
	wait     time.Duration // for a follower who takes nothing
	written  [2][]byte
	offered  int         // bytes that have found no room
	since    time.Time   // of the last change of offered, or of the follower
	stalled  time.Time   // since when output finds no room and a follower has been attached; zero: neither, or nothing has found room since
	follower *outputConn // nil: none is attached
	waits    bool        // commands wait for a follower
	attached []*outputConn
	cutOff   *outputConn // a reader was cut off before the process has ended; nil: none was
	inOrder  bool        // the process has ended in order
}

// mark notes the time of a change of what is offered, or of the follower. Only output that finds room ends a stall: found.
func (j *followedJob) mark(now time.Time, found bool) {
	j.since = now
	if found || j.offered == 0 {
		j.stalled = time.Time{}
	}
	if j.stalled.IsZero() && j.offered > 0 && j.follower != nil {
		j.stalled = now
	}
}

// absentMax bounds the wait for a follower who is not there. waitSlack is how much later a wait may end. meetMax is how long a process and
// a reader that are both connected, or try to be, may take to meet.
const (
	absentMax = 30 * time.Second
	waitSlack = time.Second
	meetMax   = 2 * time.Second
)

func (c *checkFollowed) See(w *World, event any) error {
	if c.jobs == nil {
		c.followed, c.jobs, c.readers, c.garbled = map[string]bool{}, map[int64]*followedJob{}, map[*outputReader]*[2]int64{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case submissionSent:
		for i := range e.submission.jobs {
			c.followed[e.submission.tag(i)] = e.submission.followed
		}
	case outputWritten:
		j := c.job(w, e.process)
		j.written[e.stream] = append(j.written[e.stream], e.bytes...)
	case outputOffered:
		j := c.job(w, e.process)
		if j.offered == 0 {
			c.offering = append(c.offering, j)
			j.offered = e.bytes
			j.mark(w.clock.Now(), false)
		} else {
			j.offered += e.bytes
		}
	case endOffered:
		if j := c.job(w, e.process); j.offered == 0 {
			c.offering, j.offered = append(c.offering, j), 1
			j.mark(w.clock.Now(), false)
		}
	case outputKept:
		j := c.job(w, e.process)
		j.offered -= e.bytes
		j.mark(w.clock.Now(), true)
		if j.offered == 0 {
			c.offering = slices.DeleteFunc(c.offering, func(other *followedJob) bool { return other == j })
		}
	case readerAttached:
		j := c.job(w, e.process)
		j.attached = append(j.attached, e.conn)
		if e.conn.hello.follows && j.waits {
			j.follower = e.conn
			j.mark(w.clock.Now(), false)
		}
	case readerDetached:
		j := c.job(w, e.process)
		j.attached = slices.DeleteFunc(j.attached, func(other *outputConn) bool { return other == e.conn })
		if j.follower == e.conn {
			j.follower, j.waits = nil, e.conn.hello.relayed && j.waits
			j.mark(w.clock.Now(), false)
		}
	case readerGivenUp:
		return c.givenUp(w, c.job(w, e.process))
	case ackRefused:
		return fmt.Errorf("job %d: %w", e.conn.hello.job, e.err)
	case outputRead:
		return c.read(e)
	case readerCutOff:
		return c.cutOff(e)
	case processEnded:
		return c.ended(w, e.process)
	case garbled:
		c.garbled[e.id] = true
	case logRead:
		return c.log(e)
	case stalled:
		c.overtook = w.clock.Now()
	case timePassed:
		return c.judgeWaits(w)
	}
	return nil
}

// job is the job of a process. Its id may have been that of another job, which a power loss has undone.
func (c *checkFollowed) job(w *World, p *process) *followedJob {
	j := c.jobs[p.job]
	if j == nil || j.process != p {
		wait := time.Hour
		if s := p.launchSpecs[0].OutputWait; s > 0 {
			wait = time.Duration(s * float64(time.Second))
		}
		j = &followedJob{process: p, wait: wait, waits: c.followed[tagOf(p.shell.jobproc.Job().Ops[0].Input)], since: w.clock.Now()}
		c.jobs[p.job] = j
	}
	return j
}

// givenUp judges whether a process has waited for long enough for a follower who takes nothing.
func (c *checkFollowed) givenUp(w *World, j *followedJob) error {
	if waited := w.clock.Now().Sub(j.stalled); j.follower != nil && (j.stalled.IsZero() || waited < j.wait) {
		return fmt.Errorf("job %d: its follower is given up after %v; it took nothing since %v", j.process.job, waited, j.stalled)
	}
	j.waits, j.follower = false, nil
	return nil
}

// cutOff judges the end of a connection without the end of the output. It may come before the end of its process is seen.
func (c *checkFollowed) cutOff(e readerCutOff) error {
	j := c.jobs[e.conn.hello.job]
	if j == nil || !slices.Contains(j.attached, e.conn) {
		return nil // no process had it, or that of another job
	}
	j.cutOff = e.conn
	return j.judgeEnd()
}

// judgeEnd judges whether the readers of a process that has ended in order have the end of the output.
func (j *followedJob) judgeEnd() error {
	if j.cutOff == nil || !j.inOrder {
		return nil
	}
	return fmt.Errorf("job %d: its process has ended in order, and a reader that it had taken did not get the rest; it follows the job: %v",
		j.process.job, j.cutOff.hello.follows)
}

// ended judges whether a process has ended in order without its follower, who waits at the daemon for output that the log lacks.
func (c *checkFollowed) ended(w *World, p *process) error {
	j, d := c.jobs[p.job], p.machine.node.daemon
	if j == nil || j.process != p || p.exitText != "exit status 0" {
		return nil
	}
	j.inOrder = true
	if err := j.judgeEnd(); err != nil || !j.waits || d == nil || d.outputs == nil || d.life.Paused {
		return err
	}
	lacks := func(op job.Op) bool {
		return slices.ContainsFunc(op.Log, func(e job.LogEntry) bool { return e.Type == "output-missing" })
	}
	written := w.Job(p.job)
	if written == nil || !slices.ContainsFunc(written.Ops, lacks) {
		return nil
	}
	for _, waiting := range d.outputs.readers {
		since := waiting.since
		if c.overtook.After(since) {
			since = c.overtook
		}
		if waiting.hello.job == p.job && waiting.hello.follows && waiting.known && w.clock.Now().Sub(since) > meetMax {
			return fmt.Errorf("job %d: its process has ended, and its follower waits for output that the log lacks", p.job)
		}
	}
	return nil
}

// judgeWaits judges how long commands wait for room.
func (c *checkFollowed) judgeWaits(w *World) error {
	c.offering = slices.DeleteFunc(c.offering, func(j *followedJob) bool { return j.process.life.Over || j.process.hung })
	waited := func(since time.Time) time.Duration {
		if c.overtook.After(since) {
			since = c.overtook
		}
		return w.clock.Now().Sub(since)
	}
	for _, j := range c.offering {
		most := time.Duration(0)
		switch {
		case j.follower != nil:
			most = j.wait + waitSlack
		case j.waits:
			most = absentMax + waitSlack
		}
		isStalled := j.waits && !j.stalled.IsZero()
		if w := waited(j.since); w > most || isStalled && waited(j.stalled) > j.wait+waitSlack {
			return fmt.Errorf("job %d: its command has waited for its readers for %v; a follower is attached: %v, expected: %v, stalls since %v",
				j.process.job, w, j.follower != nil, j.waits, j.stalled)
		}
	}
	return nil
}

// read judges a frame that a reader has read.
func (c *checkFollowed) read(e outputRead) error {
	id := e.reader.hello.job
	j, has := c.jobs[id], c.readers[e.reader]
	if has == nil {
		has = &[2]int64{}
		c.readers[e.reader] = has
	}
	switch {
	case e.err != nil:
		return fmt.Errorf("a reader of job %d: %w", id, e.err)
	case j == nil:
		return fmt.Errorf("a reader of job %d reads output, and the job has none", id)
	case e.gap != (outflow.Position{}) && e.reader.hello.follows && j.waits:
		return fmt.Errorf("the follower of job %d misses %d and %d bytes, and nothing has given it up", id, e.gap.Stdout, e.gap.Stderr)
	}
	has[0] += e.gap.Stdout
	has[1] += e.gap.Stderr
	if len(e.frame.Output) == 0 {
		if all := [2]int64{int64(len(j.written[0])), int64(len(j.written[1]))}; *has != all {
			return fmt.Errorf("a reader of job %d has, or is told of, %v bytes at the end, and %v were written", id, *has, all)
		}
		return nil
	}
	s := e.frame.Stream
	err := j.matches(int(s), has[s], e.frame.Output)
	has[s] += int64(len(e.frame.Output))
	return err
}

// matches judges whether a piece is what the job has written at its place.
func (j *followedJob) matches(stream int, from int64, piece []byte) error {
	until := from + int64(len(piece))
	if written := j.written[stream]; until > int64(len(written)) || !bytes.Equal(written[from:until], piece) {
		return fmt.Errorf("job %d: %q came as bytes %d to %d of stream %d, of which %d were written",
			j.process.job, piece[:min(len(piece), 30)], from, until, stream, len(written))
	}
	return nil
}

// log judges the log of an ended job.
func (c *checkFollowed) log(e logRead) error {
	j := c.jobs[e.id]
	if j == nil || c.garbled[e.id] {
		return nil
	}
	for _, p := range e.pieces {
		if err := j.matches(p.stream, p.from, p.output); err != nil {
			return errors.Join(errors.New("the log is wrong"), err)
		}
	}
	if all := [2]int64{int64(len(j.written[0])), int64(len(j.written[1]))}; e.total != all && !e.cut {
		return fmt.Errorf("the log of job %d has, or tells of, %v bytes, and %v were written", e.id, e.total, all)
	}
	return nil
}
