package jobproc

import (
	"encoding/json"
	"errors"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/progress"
	"lockstep/core/wire"
)

// Process decides everything that the process of a job does between its start handshake and its end: the opcodes
// (Machine), when the job file is written, what is reported to the daemon and when a permission is asked for, how locks
// are taken and released, and what is repeated after which pause.
//
// A shell drives the Process: it calls one method for each event, with the time, performs the returned Actions in the
// order of their fields, and calls Tick when the Deadline has come. The shell checks the lease before each write of the
// job file and before each execution (LeaseGuard).
//
// While a write of the job file is under way or repeated, the events of opcodes, locks, permissions and clients are held
// and handled after the write.
type Process struct {
	machine    *Machine
	writes     writes
	reports    reports
	permission permission
	locks      locks

	afterWrite    Step // the rest of the step whose write is under way
	stage         processStage
	executing     bool // the shell executes an opcode
	killRequested bool // a client wants the job ended
	cancelHeld    bool // a client wants the job canceled; the event is held
	held          []func(now time.Time)
	abandonReason string // in abandoning
	out           Actions
}

type processStage uint8

const (
	working    processStage = iota
	leaving                 // the final status is on the disk; locks may still be released
	abandoning              // the queue's directory is missing; an opcode is being ended
	gone                    // the End has been returned
)

// Actions says what the shell does after an event, in the order of the fields.
type Actions struct {
	Complaints []string // lines for standard error
	Calls      []Call
	Prepare    bool // do what opcode Op does before it takes its locks; the result is the event Prepared
	Execute    bool // execute opcode Op; the result is the event Executed
	Op         int
	Locks      []lock.Item // held for the opcode to execute
	EndOpcode  bool        // end the preparation or the execution of the opcode, if there is one
	Write      *FileWrite  // nil: none; the result is the event Written
	End        *End        // nil: the process goes on
}

// End is the end of the process. With Abandoned, the job file is not final and the lock file stays, by which a daemon
// that finds the job file again fails the job.
type End struct{ Abandoned bool }

// LogEntry is a log entry of an opcode, or output of its command.
type LogEntry struct {
	Kind    string // of the entry; of output the stream: job.LogStdout or job.LogStderr
	Payload json.RawMessage
	Output  []byte // as it was read; the Process owns it from then on. Empty without a Payload: the stream has ended
}

// Identity says which process works on the job.
type Identity struct {
	Livelock string
	Pid      int
	// ReportSizeMax bounds the job file in a report, in bytes. The report of a larger file has no content, and the daemon
	// reads the disk.
	ReportSizeMax int
	// GanetiLog is true in Ganeti mode: log entries have types that Ganeti's daemon reads (job.AsMessage).
	GanetiLog bool
}

// NewProcess takes over a job of which no process has taken up what is left; see New for the conditions.
func NewProcess(j *job.Job, specs []LaunchSpec, who Identity) (*Process, error) {
	machine, err := New(j, specs)
	if err != nil {
		return nil, err
	}
	machine.log.ganeti = who.GanetiLog
	id := int64(j.ID)
	return &Process{
		machine:    machine,
		reports:    reports{line: newLine(ReportLine), job: id, livelock: who.Livelock, sizeMax: who.ReportSizeMax},
		permission: permission{line: newLine(PermissionLine), job: id, livelock: who.Livelock},
		locks:      locks{line: newLine(LockLine), owner: lock.JobOwner(j.ID, who.Livelock, who.Pid)},
	}, nil
}

// Job is the current state of the job. The caller does not change it.
func (p *Process) Job() *job.Job { return p.machine.Job() }

// HasEnded reports whether the process has no more to do for the job: the job is final, or a try has ended.
func (p *Process) HasEnded() bool { return p.machine.phase == ended }

// LoggedBefore is the output of the job that former processes have written, according to its log.
func (p *Process) LoggedBefore() job.Output { return p.machine.loggedBefore }

// CurrentOp is the index of the opcode that executes, or waits for its permission or locks.
func (p *Process) CurrentOp() int { return p.machine.op }

// Spec is the LaunchSpec of an opcode.
func (p *Process) Spec(op int) LaunchSpec { return p.machine.Spec(op) }

// Locks is the locks that are held for the current opcode; nil: none.
func (p *Process) Locks() []lock.Item { return p.locks.held }

// AcceptsOutput reports whether log entries are handled at once. While it is false, the shell should not read more
// output, because held entries take memory.
func (p *Process) AcceptsOutput() bool { return !p.writes.writing || p.stage == abandoning }

// LogLacksOutput reports whether the log of an opcode has lost output.
func (p *Process) LogLacksOutput() bool { return p.machine.lacksOutput || p.machine.log.dropped }

// IsResting reports whether the job file has the current state and no event is held.
func (p *Process) IsResting() bool {
	return p.stage == working && !p.writes.writing && !p.writes.pending && len(p.held) == 0
}

// Deadline is when Tick is due; the zero time: no Tick is due.
func (p *Process) Deadline() time.Time {
	if p.stage == gone || p.stage == abandoning {
		return time.Time{}
	}
	var first time.Time
	consider := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if p.writes.pending {
		consider(p.writes.due)
	}
	consider(p.writes.retryAt)
	consider(p.reports.at)
	consider(p.reports.reminder)
	consider(p.reports.progressDue())
	consider(p.permission.at)
	consider(p.locks.at)
	consider(p.locks.limit)
	return first
}

// Start is the first event: the daemon has confirmed the start. The confirmation is the permission to begin the first
// opcode.
func (p *Process) Start(now time.Time) Actions {
	first := p.machine.Start(job.TimestampOf(now))
	p.writes.schedule(now, first.Write)
	p.apply(now, p.machine.Permitted(job.TimestampOf(now)))
	return p.take()
}

// Tick: the Deadline has come. What is due is done: a write, a report, the question for a permission, a call about locks. An early Tick
// does nothing.
func (p *Process) Tick(now time.Time) Actions {
	w := &p.writes
	if !w.retryAt.IsZero() && !now.Before(w.retryAt) {
		w.attempt(&p.out)
	}
	if w.pending && !now.Before(w.due) {
		p.write(now, false, Step{})
	}
	if p.reports.isDue(now) {
		p.reports.send(&p.out)
	}
	p.reports.tellProgress(now, &p.out)
	p.reports.remind(now, &p.out)
	if p.permission.isDue(now) {
		p.permission.ask(&p.out)
	}
	p.handleLocks(now, p.locks.tick(now, &p.out), nil)
	return p.take()
}

// Written: the write of the job file has ended.
func (p *Process) Written(now time.Time, err error) Actions {
	if err != nil {
		if p.writes.failed(now, err, p.HasEnded()) {
			p.complain("the job file cannot be written, and is tried again until it can: %v", err)
		}
		p.reports.fail(&p.out, p.writes.failure)
		p.abandonIfLost()
		return p.take()
	}
	if took := p.writes.failedFor(now); took > 0 {
		p.complain("the job file is written again, after %v", took.Round(time.Millisecond))
	}
	p.writes.succeeded(now)
	// Reported after the write: the daemon must know nothing that it would not find in the file after a restart.
	if !p.HasEnded() {
		p.reports.add(&p.out, p.writes.write.Content) // the end of the process reports the end of the job, or of a try
	}
	// What had to wait for the file happens only now, such as the question for the next opcode, or the exit.
	p.follow(now, p.afterWrite)
	// The events that came during the write, in their order, until one of them begins another write.
	for len(p.held) > 0 && !p.writes.writing && p.stage == working {
		event := p.held[0]
		p.held = p.held[1:]
		event(now)
	}
	return p.take()
}

// Answered: a call has ended. The answer to a call that was replaced is dropped.
func (p *Process) Answered(now time.Time, line Line, number uint64, result json.RawMessage, err error) Actions {
	if p.stage == gone || p.stage == abandoning {
		return p.take()
	}
	switch line {
	case ReportLine:
		delivered := p.reports.accept(number) && p.reports.answered(now, &p.out, err)
		// The permission is asked for when the daemon has all reports: it depends on the end of the former opcode.
		if delivered && p.permission.step == awaitingReports {
			p.permission.ask(&p.out)
		}
		p.reports.tellProgress(now, &p.out)
	case PermissionLine:
		if !p.permission.accept(number) {
			break
		}
		if denial, decided := p.permission.answered(now, result, err); decided {
			p.handle(now, func(now time.Time) { p.permitted(now, denial) })
		}
	case LockLine:
		if p.locks.accept(number) {
			event, err := p.locks.answered(now, &p.out, result, err)
			p.handleLocks(now, event, err)
		}
	}
	if refused := (*wire.Error)(nil); err != nil && !errors.As(err, &refused) {
		p.probeQueue(now)
	}
	return p.take()
}

// probeQueue writes the job file again if that has not been written for long. No daemon answers: the queue may be gone.
func (p *Process) probeQueue(now time.Time) {
	if p.stage == working && !p.executing && !p.writes.writing && now.Sub(p.writes.began) >= queueProbe {
		p.writes.schedule(now, Visible)
	}
}

// Prepared: the preparation of the opcode has ended, with an error that fails the opcode, or nil.
func (p *Process) Prepared(now time.Time, err error) Actions {
	p.handle(now, func(now time.Time) {
		if err != nil {
			p.apply(now, p.machine.FailBeforeStart(job.ErrorResult("OpPrereqError", err.Error()), job.TimestampOf(now)))
			return
		}
		op := p.machine.op
		p.locks.take(&p.out, p.Job().Ops[op].Priority, p.Spec(op).RequiredLocks)
	})
	return p.take()
}

// Logged: the opcode has written log entries, or output.
func (p *Process) Logged(now time.Time, entries []LogEntry) Actions {
	p.handle(now, func(now time.Time) {
		for _, e := range entries {
			if e.Payload != nil {
				p.apply(now, p.machine.Log(e.Kind, e.Payload, job.TimestampOf(now)))
			} else {
				p.writes.burst.output += len(e.Output)
				p.apply(now, p.machine.Output(e.Kind, e.Output, job.TimestampOf(now)))
			}
		}
	})
	return p.take()
}

// ReaderAwaited: since a time the output of the opcode waits for the reader who follows the job; the zero time: it does not any more.
func (p *Process) ReaderAwaited(now, since time.Time) Actions {
	if p.stage == working {
		p.reports.awaitReader(now, &p.out, since)
	}
	return p.take()
}

// Progressed: the command of opcode op says something about its progress. After the end of the opcode it is ignored. The daemon hears of
// it twice a second at most, and of the latest line.
func (p *Process) Progressed(now time.Time, op int, l progress.Line) Actions {
	if p.stage == working && p.executing && op == p.machine.op {
		var said *Progress
		if began := p.Job().Ops[op].Exec; !l.IsEmpty() {
			said = &Progress{Line: l, SinceUS: began.Sec*1e6 + began.Usec, UpdatedUS: now.UnixMicro()}
		}
		p.reports.progressed(now, &p.out, said)
	}
	return p.take()
}

// Executed: the opcode has ended, and nothing works with its locks.
func (p *Process) Executed(now time.Time, o Outcome) Actions {
	p.executing = false
	p.reports.commandEnded()
	if p.stage == abandoning {
		p.exitAbandoned()
		return p.take()
	}
	p.handle(now, func(now time.Time) { p.apply(now, p.machine.Done(o, job.TimestampOf(now))) })
	return p.take()
}

// CancelRequested: a client cancels the job. Nothing happens while an opcode executes. During a write of the job file the cancel is held
// until the end of the write.
func (p *Process) CancelRequested(now time.Time) Actions {
	p.cancelHeld = p.writes.writing
	p.abandonIfLost()
	p.handle(now, func(now time.Time) {
		p.cancelHeld = false
		p.apply(now, p.machine.Cancel(job.TimestampOf(now)))
	})
	return p.take()
}

// KillRequested: a client ends the job, and the opcode that executes.
func (p *Process) KillRequested(now time.Time) Actions {
	p.handle(now, func(now time.Time) {
		p.killRequested, p.out.EndOpcode = true, true
		p.apply(now, p.machine.Kill(job.TimestampOf(now))) // while an opcode executes, this only writes
	})
	return p.take()
}

// PriorityChanged: a client gives the opcodes that have not begun another priority, -20 to 19.
func (p *Process) PriorityChanged(now time.Time, priority int) Actions {
	p.handle(now, func(now time.Time) {
		p.locks.reprioritise(&p.out, priority)
		p.apply(now, p.machine.Reprioritise(priority))
	})
	// take returns the actions that were collected while an event was handled, and begins a new collection.
	return p.take()
}

// take returns the actions that the event has caused, and forgets them.
func (p *Process) take() Actions {
	out := p.out
	p.out = Actions{}
	return out
}
