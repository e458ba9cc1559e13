package sim

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"lockstep/actors/conn"
	"lockstep/core/budget"
	"lockstep/core/jobproc"
	"lockstep/core/paths"
	"lockstep/core/rawjson"
)

// shell drives the jobproc.Process of a simulated job process, as the shell in lockstep-job does: it performs actions by
// steps of the process, and tells checkers of what happens.
type shell struct {
	process *process
	jobproc *jobproc.Process
	lines   [jobproc.LockLine + 1]*rpcClient

	deadline  time.Time   // of the timer; zero: there is none
	stopTimer func() bool // stops the timer
	kill      func()      // ends the executing opcode; nil: none executes

	locksWantedSince time.Time      // by the current opcode
	lockAnswerLost   bool           // since then
	heldReport       []jobproc.Call // with the mutation DelayReports

	output   []loggedOutput // that the Process has not accepted yet
	afterAll func()         // runs when it has accepted all output; nil: nothing waits for that
	relay    *relay
}

// loggedOutput is entries for the log. then runs when the Process has accepted them.
type loggedOutput struct {
	entries []jobproc.LogEntry
	then    func()
}

func newShell(p *process, j *jobproc.Process) *shell {
	s := &shell{process: p, jobproc: j, relay: newRelay(p, j)}
	for i := range s.lines {
		s.lines[i] = &rpcClient{world: p.machine.world, node: p.machine.node, thread: p.thread, wconf: jobproc.Line(i) == jobproc.LockLine,
			as: budget.Client{Class: budget.Jobs, Name: "jobs"}, peer: conn.Peer{Program: "lockstep-job"}}
	}
	return s
}

// begin begins the job.
func (s *shell) begin() { s.event(s.jobproc.Start) }

// event gives an event to the Process and performs what follows.
func (s *shell) event(e func(now time.Time) jobproc.Actions) {
	if !s.process.life.Over {
		s.perform(e(s.process.machine.world.clock.Now()))
	}
}

func (s *shell) perform(a jobproc.Actions) {
	p := s.process
	for _, text := range a.Complaints {
		p.machine.world.trace.addf(topicProcess, "job %d: process complains: %s", p.job, text)
	}
	for _, c := range a.Calls {
		s.call(c)
	}
	if a.Prepare {
		s.prepare(a.Op)
	}
	if a.Execute {
		p.heldLocks = a.Locks
		if !p.checkLease() || !p.reach(stageExecuting) {
			return
		}
		p.execute(a.Op)
	}
	if a.EndOpcode && s.kill != nil {
		s.kill()
	}
	if a.Write != nil {
		s.write(*a.Write)
	}
	if a.End != nil {
		s.end(*a.End)
		return
	}
	s.arm()
}

// arm sets the timer to the deadline of the Process. Without a deadline there is no timer.
func (s *shell) arm() {
	deadline := s.jobproc.Deadline()
	if deadline.Equal(s.deadline) {
		return
	}
	if s.stopTimer != nil {
		s.stopTimer()
	}
	s.deadline, s.stopTimer = deadline, nil
	if deadline.IsZero() {
		return
	}
	clock := s.process.machine.world.clock
	s.stopTimer = clock.After(deadline.Sub(clock.Now()), s.process.life, func() {
		s.process.then(func() {
			s.deadline = time.Time{}
			s.event(s.jobproc.Tick)
		})
	})
}

// call makes a call in place of the call under way on its line, whose answer is dropped.
func (s *shell) call(c jobproc.Call) {
	p := s.process
	client := s.lines[c.Line]
	switch c.Line {
	case jobproc.ReportLine:
		if p.awaitsPermission && p.machine.world.mutations.DelayReports {
			s.heldReport = []jobproc.Call{c}
			return
		}
	case jobproc.PermissionLine:
		p.awaitsPermission = true
		p.machine.world.momentReached(processMoment{p.job, momentAsks})
	case jobproc.LockLine:
		s.lockAnswerLost = s.lockAnswerLost || client.done != nil
	}
	client.abandon()
	client.call(c.Method, c.Args, c.Timeout, func(result json.RawMessage, err error) { s.answered(c, result, err) })
}

func (s *shell) answered(c jobproc.Call, result json.RawMessage, err error) {
	p := s.process
	hadLocks := s.jobproc.Locks() != nil
	a := s.jobproc.Answered(p.machine.world.clock.Now(), c.Line, c.Number, result, err)
	switch c.Line {
	case jobproc.ReportLine:
	case jobproc.PermissionLine:
		if err == nil && string(result) == "null" {
			p.awaitsPermission = false
			p.machine.world.notify(opPermitted{p, c.Args[2].(int)})
			for _, report := range s.heldReport {
				s.call(report)
			}
			s.heldReport = nil
		}
	case jobproc.LockLine:
		s.lockAnswerLost = s.lockAnswerLost || err != nil
		if !hadLocks && s.jobproc.Locks() != nil { // a write may have to end before the opcode can execute
			op := s.jobproc.CurrentOp()
			p.machine.world.notify(locksTaken{p, op, len(s.jobproc.Spec(op).RequiredLocks.AnyOf) > 0 && s.lockAnswerLost})
		}
	}
	s.perform(a)
}

// prepare prepares an opcode that needs locks. Only OP_TEST_JQUEUE does anything then: it asks for a client that never
// comes.
func (s *shell) prepare(op int) {
	p := s.process
	var input struct {
		Notify bool `json:"notify_waitlock"`
	}
	mustDecode(s.jobproc.Job().Ops[op].Input, &input)
	if !input.Notify {
		s.prepared(nil)
		return
	}
	s.log(jobproc.LogEntry{Kind: "jqueue-test", Payload: rawjson.Quote("expandnames")})
	stop := p.machine.world.clock.After(notifyMax, p.life, func() {
		s.kill = nil
		s.prepared(errNoClient)
	})
	s.kill = func() { stop() }
}

// notifyMax is how long OP_TEST_JQUEUE waits for its client.
const notifyMax = 20 * time.Second

var errNoClient = errors.New("time-out")

func (s *shell) prepared(err error) {
	s.process.then(func() {
		s.locksWantedSince, s.lockAnswerLost = s.process.machine.world.clock.Now(), false
		s.event(func(now time.Time) jobproc.Actions { return s.jobproc.Prepared(now, err) })
	})
}

// log is output of the opcode. The Process gets it when it accepts output.
func (s *shell) log(entries ...jobproc.LogEntry) { s.logThen(func() {}, entries...) }

func (s *shell) logThen(then func(), entries ...jobproc.LogEntry) {
	s.output = append(s.output, loggedOutput{entries, then})
	s.process.then(s.passOutput)
}

func (s *shell) passOutput() {
	for len(s.output) > 0 && s.jobproc.AcceptsOutput() {
		next := s.output[0]
		s.output = s.output[1:]
		s.event(func(now time.Time) jobproc.Actions { return s.jobproc.Logged(now, next.entries) })
		next.then()
	}
	if f := s.afterAll; f != nil && len(s.output) == 0 {
		s.afterAll = nil
		f()
	}
}

// executed passes the outcome of the opcode on, after the opcode's output.
func (s *shell) executed(o jobproc.Outcome) {
	s.afterAll = func() {
		s.event(func(now time.Time) jobproc.Actions { return s.jobproc.Executed(now, o) })
	}
	s.passOutput()
}

// write writes the job file: one step replaces the file, and one syncs the directory.
func (s *shell) write(w jobproc.FileWrite) {
	p := s.process
	disk := p.machine.node.disk
	if s.jobproc.LogLacksOutput() {
		s.relay.open()
	}
	p.then(func() {
		if !p.checkLease() { // the file belongs to the next master
			return
		}
		path := paths.JobPath(p.job)
		sync := func() error { return disk.SyncDir("run-job", paths.QueueDir) }
		if w.Ended && disk.Find(path) == nil {
			s.written(sync())
			return
		}
		p.begun = true // with the mutation LateMark
		if err := disk.Replace("run-job", path, w.Content); err != nil {
			s.written(err)
			return
		}
		if s.jobproc.HasEnded() {
			p.permitted, p.endWritten = false, true // nothing of the job works now
		}
		if !w.Durable || p.machine.world.mutations.UnsyncedEnds {
			s.written(nil)
			return
		}
		p.then(func() {
			err := sync()
			if err != nil {
				err = &jobproc.UnsyncedError{Err: err}
			}
			s.written(err)
		})
	})
}

func (s *shell) written(err error) {
	p := s.process
	if err == nil && s.jobproc.HasEnded() {
		p.machine.world.momentReached(processMoment{p.job, momentEnds})
		if !p.reach(stageEnding) {
			return
		}
	}
	if errors.Is(err, fs.ErrNotExist) && !p.machine.world.mutations.PatientProcesses {
		err = &jobproc.QueueMissingError{Err: err}
	}
	s.event(func(now time.Time) jobproc.Actions { return s.jobproc.Written(now, err) })
	if len(s.output) > 0 {
		p.then(s.passOutput)
	}
}

func (s *shell) end(e jobproc.End) {
	s.relay.finish(s.jobproc.LogLacksOutput(), func() {
		if e.Abandoned {
			s.process.ended("exit status 5")
			return
		}
		s.process.exit("")
	})
}

// hangUp closes all connections.
func (s *shell) hangUp() {
	for _, client := range s.lines {
		client.hangUp()
	}
	s.relay.hangUp()
}
