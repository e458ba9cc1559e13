package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/lock"
	"lockstep/core/outflow"
	"lockstep/core/paths"
	"lockstep/core/progress"
	"lockstep/core/rawjson"
	"lockstep/persistence"
)

// shell drives the jobproc.Process of the job: it performs the actions by system calls and passes on what happens. It is
// used by one goroutine; opcodes and calls have goroutines of their own.
type shell struct {
	process      *jobproc.Process
	lease        *lease
	files        *persistence.OSFiles
	queue        *connections // to the queue's socket
	lines        [jobproc.LockLine + 1]*line
	signals      <-chan os.Signal
	priorityPath string
	runDir       string
	relay        *relay
	keep         *keeper

	events    chan event
	progress  chan opProgress         // holds the latest line that the process does not know
	output    chan []jobproc.LogEntry // unbuffered, so that the output of an opcode comes before its end
	endOpcode func()                  // ends the preparation or the execution of the opcode
	timer     *time.Timer             // for the deadline of the process
}

// opProgress is what the command of an opcode says about its progress.
type opProgress struct {
	op   int
	line progress.Line
}

// event passes an event on to the process.
type event func(now time.Time) jobproc.Actions

func newShell(p *jobproc.Process, l *lease, files *persistence.OSFiles, place place, signals <-chan os.Signal) *shell {
	runDir := place.runDir
	s := &shell{process: p, lease: l, files: files, signals: signals, priorityPath: persistence.PriorityPath(runDir, int64(p.Job().ID)),
		runDir: runDir, progress: make(chan opProgress, 1),
		queue:  &connections{socket: persistence.SocketPath(runDir, persistence.LuxiSocket)},
		events: make(chan event), output: make(chan []jobproc.LogEntry), endOpcode: func() {}, timer: time.NewTimer(0)}
	first := p.Spec(0)
	outputWait := jobproc.OutputWait
	if first.OutputWait > 0 {
		outputWait = time.Duration(first.OutputWait * float64(time.Second))
	}
	s.relay = newRelay(persistence.SocketPath(runDir, persistence.OutputSocket), int64(p.Job().ID),
		outflow.NewSource(outflow.Standard(outputWait), outflow.After(p.LoggedBefore()), first.Followed), s.readerAwaited, s.readerLost)
	var err error
	if s.keep, err = newKeeper(place.dataDir, p.Job(), first.KeepOutput); err != nil {
		s.complain(err.Error())
	}
	lockManager := &connections{socket: persistence.SocketPath(runDir, persistence.WconfSocket)}
	s.lines[jobproc.ReportLine] = newLine(s.queue)
	s.lines[jobproc.PermissionLine] = newLine(s.queue)
	s.lines[jobproc.LockLine] = newLine(lockManager)
	return s
}

// run runs the job to the end of its process, and returns how it ends.
func (s *shell) run() jobproc.End {
	actions := s.process.Start(time.Now())
	for {
		if end := s.perform(actions); end != nil {
			if err := s.relay.finish(s.process.LogLacksOutput()); err != nil {
				s.complain(err.Error())
			}
			return *end
		}
		actions = s.await()
	}
}

// await waits for the next event and returns the actions that the event causes. Output is read only if the process accepts some.
func (s *shell) await() jobproc.Actions {
	var output <-chan []jobproc.LogEntry
	if s.process.AcceptsOutput() {
		output = s.output
	}
	var due <-chan time.Time
	if deadline := s.process.Deadline(); !deadline.IsZero() {
		s.timer.Reset(time.Until(deadline))
		due = s.timer.C
	}
	select {
	case e := <-s.events:
		return e(time.Now())
	case entries := <-output:
		return s.process.Logged(time.Now(), entries)
	case said := <-s.progress:
		return s.process.Progressed(time.Now(), said.op, said.line)
	case signal := <-s.signals:
		return s.signalled(signal)
	case <-due:
		return s.process.Tick(time.Now())
	}
}

// perform performs actions, and those that follow from a write of the job file. It returns the end of the process; nil: it continues.
func (s *shell) perform(a jobproc.Actions) *jobproc.End {
	for {
		for _, text := range a.Complaints {
			s.complain(text)
		}
		for _, c := range a.Calls {
			s.call(c)
		}
		if a.Prepare {
			s.prepare(a.Op)
		}
		if a.Execute {
			// As late as possible: an opcode that begins after the lease would work beside the jobs of the next master.
			s.lease.check()
			s.execute(a.Op, a.Locks)
		}
		if a.EndOpcode {
			s.endOpcode()
		}
		if a.Write == nil {
			return a.End
		}
		if s.process.LogLacksOutput() { // before the file tells readers of the log
			s.relay.logLacks()
		}
		// What must not happen before the file has its content comes from Written, as the next actions.
		err := s.write(*a.Write)
		a = s.process.Written(time.Now(), err)
	}
}

func (s *shell) complain(text string) {
	fmt.Fprintf(os.Stderr, "lockstep-job %d: %s\n", s.process.Job().ID, text)
}

// signalled handles the signals of Ganeti's job processes (queue.md 4.6): SIGTERM is a cancel, SIGUSR1 another priority. SIGINT, a kill,
// is lockstep's own.
func (s *shell) signalled(signal os.Signal) jobproc.Actions {
	now := time.Now()
	switch signal {
	case syscall.SIGTERM:
		return s.process.CancelRequested(now)
	case syscall.SIGINT:
		return s.process.KillRequested(now)
	case syscall.SIGUSR1:
		priority, err := s.readPriority()
		if err != nil {
			s.complain(fmt.Sprintf("cannot read the new priority: %v", err))
			return jobproc.Actions{}
		}
		return s.process.PriorityChanged(now, priority)
	default: // SIGHUP is for lock owners that wait without a connection
		return jobproc.Actions{}
	}
}

// readPriority reads the priority file. The daemon removes the file when the job has ended: a newer file may have
// replaced the one that was read.
func (s *shell) readPriority() (int, error) {
	content, err := os.ReadFile(s.priorityPath)
	if err != nil {
		return 0, err
	}
	priority, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err == nil && (priority < -20 || priority > 19) {
		err = fmt.Errorf("%d is not between -20 and 19", priority)
	}
	return priority, err
}

// write writes the job file. The error is a *QueueMissingError if its directory is gone.
func (s *shell) write(w jobproc.FileWrite) error {
	s.lease.check() // without the lease the file belongs to the next master
	err := writeJobFile(s.files, paths.JobPath(int64(s.process.Job().ID)), w)
	if errors.Is(err, fs.ErrNotExist) {
		return &jobproc.QueueMissingError{Err: err}
	}
	return err
}

func writeJobFile(files *persistence.OSFiles, path string, w jobproc.FileWrite) error {
	if w.Ended {
		if _, err := files.Identify("run-job", path); errors.Is(err, fs.ErrNotExist) {
			return files.SyncDir("run-job", paths.QueueDir) // the directory may be missing, too
		}
	}
	if err := files.Replace("run-job", path, w.Content); err != nil || !w.Durable {
		return err
	}
	if err := files.SyncDir("run-job", paths.QueueDir); err != nil {
		return &jobproc.UnsyncedError{Err: err}
	}
	return nil
}

// call makes a call to the daemon on a goroutine. Its answer is an event.
func (s *shell) call(c jobproc.Call) {
	s.lines[c.Line].call(c, func(result []byte, err error) {
		s.events <- func(now time.Time) jobproc.Actions {
			return s.process.Answered(now, c.Line, c.Number, result, err)
		}
	})
}

// readerAwaited passes on since when the output waits for its reader. It is called by the goroutines that read the output.
func (s *shell) readerAwaited(since time.Time) {
	s.events <- func(now time.Time) jobproc.Actions { return s.process.ReaderAwaited(now, since) }
}

// progressed keeps what the command of opcode op says, in place of what it has said before. One goroutine at a time calls it.
func (s *shell) progressed(op int, l progress.Line) {
	select {
	case <-s.progress:
	default:
	}
	s.progress <- opProgress{op, l}
}

// readerLost says in the log why the command does not wait for its reader any more.
func (s *shell) readerLost(complaint string) {
	s.output <- []jobproc.LogEntry{{Kind: job.LogNote, Payload: rawjson.Quote(complaint)}}
}

// prepare prepares an opcode that needs locks, on a goroutine. Its end is an event.
func (s *shell) prepare(op int) {
	x := s.newExecution(op, nil)
	go func() {
		err := x.prepare()
		s.events <- func(now time.Time) jobproc.Actions { return s.process.Prepared(now, err) }
	}()
}

// execute executes an opcode with its locks, on a goroutine. Its end is an event.
func (s *shell) execute(op int, locks []lock.Item) {
	x := s.newExecution(op, locks)
	go func() {
		outcome := x.run()
		s.events <- func(now time.Time) jobproc.Actions { return s.process.Executed(now, outcome) }
	}()
}

// newExecution is what an opcode needs to be prepared or executed. endOpcode ends it.
func (s *shell) newExecution(op int, locks []lock.Item) *execution {
	ctx, cancel := context.WithCancel(context.Background())
	s.endOpcode = cancel
	j, spec := s.process.Job(), s.process.Spec(op)
	progressPath := persistence.ProgressPath
	if spec.Account != nil {
		progressPath = persistence.UserProgressPath
	}
	return &execution{id: j.ID, op: op, name: s.process.Spec(0).Name, socket: s.queue.socket, lease: s.lease, livelock: j.Livelock,
		try: spec.CurrentTry(), loggedTry: j.Ops[op].LoggedTries() + 1,
		input: j.Ops[op].Input, secrets: spec.Secrets, runAs: spec.RunAs, account: spec.Account, locks: locks, killed: ctx.Done(),
		command: spec.Command, ask: s.queue.ask,
		relay: s.relay, keep: s.keep, emit: func(entries []jobproc.LogEntry) { s.output <- entries },
		progressPath: progressPath(s.runDir, int64(j.ID)), progressed: func(l progress.Line) { s.progressed(op, l) }}
}

// prepare does what an opcode does before it takes its locks. Only OP_TEST_JQUEUE does anything.
func (x *execution) prepare() error {
	if job.OpID(x.input) != "OP_TEST_JQUEUE" {
		return nil
	}
	return x.expandNames()
}
