// Package jobproc is the job process as a state machine (design.md 4, step 5; queue.md 4.6). A Machine is given a job
// and the events of its process: the permission to begin an opcode, its locks, its output, its end, a cancel. It
// returns the next Step: how durably to write the job file, whether to release the locks, and what to do then. A
// LockAcquirer decides the calls by which an opcode gets its locks.
//
// It is pure. The program lockstep-job drives it with real commands and files, the simulator with scripted ones. It is
// the main writer of job files.
package jobproc

import (
	"encoding/json"
	"fmt"

	"lockstep/core/job"
)

// Write says what must happen to the job file before the step's Action.
type Write uint8

const (
	// Keep: the file is as it should be.
	Keep Write = iota
	// Visible: the change only serves to be seen; the write may wait a few
	// milliseconds and is dropped when the next change supersedes it.
	Visible
	// Logged: only a log has grown. It may wait longer than Visible, the longer the
	// more the file costs to write: a command that never stops talking must not keep
	// the disk busy.
	Logged
	// Recorded: the change must survive the end of any process.
	Recorded
	// Durable: the change must survive power loss.
	Durable
)

// Action says what follows the write.
type Action uint8

const (
	// Wait for the next event.
	Wait Action = iota
	// Begin: ask the daemon for permission to begin opcode Op. For the first
	// opcode the confirmation of the start was the permission.
	Begin
	// Lock: take the locks of opcode Op.
	Lock
	// Execute opcode Op.
	Execute
	// Exit: the job is final and this was its last write, ever.
	Exit
)

// Step is the answer to an event: write first, then release the locks if ReleaseLocks is set, then do the Action.
type Step struct {
	Write        Write
	ReleaseLocks bool
	Action       Action
	Op           int
}

// Outcome is how an opcode ended. A nil Result stands for JSON null.
type Outcome struct {
	Failed bool
	Result json.RawMessage
}

// Machine owns the job of one process. The caller writes Job() as the steps say, and never changes it.
type Machine struct {
	job   *job.Job
	specs []LaunchSpec // by opcode
	op    int
	phase phase
	log   logBounds
}

type phase uint8

const (
	notStarted         phase = iota // nothing done yet
	awaitingPermission              // opcode op is waiting, permission asked for
	awaitingLocks                   // opcode op is waiting, locks asked for
	executing                       // opcode op runs
	ended                           // final
)

// New takes over a job that has not begun. Its opcodes must all be queued and there must be at least one. Anything
// else is an error, because to run an opcode twice is worse than not to run it. specs has the LaunchSpec of each
// opcode; a missing one is empty.
func New(j *job.Job, specs []LaunchSpec) (*Machine, error) {
	if len(j.Ops) == 0 {
		return nil, fmt.Errorf("job %d has no opcodes", j.ID)
	}
	for i := range j.Ops {
		if j.Ops[i].Status != job.Queued {
			return nil, fmt.Errorf("job %d has begun before: opcode %d is %s", j.ID, i, j.Ops[i].Status)
		}
	}
	return &Machine{job: j, specs: specs}, nil
}

// Job is the current state, to be encoded and written.
func (m *Machine) Job() *job.Job { return m.job }

// Start is the first event: the daemon has confirmed the start.
func (m *Machine) Start(now job.Timestamp) Step {
	m.expect(notStarted)
	m.job.Start = now
	return m.requestPermission(0, now, Visible)
}

// Permitted: permission to begin the current opcode has come.
func (m *Machine) Permitted(now job.Timestamp) Step {
	m.expect(awaitingPermission)
	spec := m.Spec(m.op)
	switch {
	case spec.FailureResult != nil:
		return m.FailBeforeStart(spec.FailureResult, now)
	case spec.RequiredLocks.NotEmpty():
		m.phase = awaitingLocks
		return Step{Action: Lock, Op: m.op}
	default:
		return m.execute(now)
	}
}

// LocksAcquired: the current opcode has its locks.
func (m *Machine) LocksAcquired(now job.Timestamp) Step {
	m.expect(awaitingLocks)
	return m.execute(now)
}

// LocksWithdrawn: the daemon has withdrawn the request for locks. The step releases the locks that the opcode has got,
// and asks for permission again.
func (m *Machine) LocksWithdrawn() Step {
	m.expect(awaitingLocks)
	m.phase = awaitingPermission
	return Step{ReleaseLocks: true, Action: Begin, Op: m.op}
}

func (m *Machine) execute(now job.Timestamp) Step {
	op := &m.job.Ops[m.op]
	op.Take(job.Execute)
	op.Exec = now
	m.phase = executing
	m.log = m.log.next(len(op.Log))
	return Step{Write: Visible, Action: Execute, Op: m.op}
}

// Spec is the LaunchSpec of an opcode.
func (m *Machine) Spec(op int) LaunchSpec {
	if op < len(m.specs) {
		return m.specs[op]
	}
	return LaunchSpec{}
}

// Log records a log entry of the opcode. Many entries may share one write.
func (m *Machine) Log(kind string, payload json.RawMessage, now job.Timestamp) Step {
	if m.phase != awaitingLocks { // one opcode logs before it has its locks
		m.expect(executing)
	}
	m.log.add(m.job, m.op, now, kind, payload)
	return Step{Write: Logged, Action: Wait, Op: m.op}
}

// Done: the opcode has ended. A failure ends the job; the write that ends an
// opcode sets the next one waiting, so that the job never shows queued again
// (design.md 8).
func (m *Machine) Done(o Outcome, now job.Timestamp) Step {
	m.expect(executing)
	op := &m.job.Ops[m.op]
	op.Result, op.End = o.Result, now
	if o.Failed {
		op.Take(job.Fail)
		m.job.FailUnfinished(job.ErrorResult("OpExecError", "Preceding opcode failed"), now)
		return m.exit()
	}
	op.Take(job.Succeed)
	if m.op+1 == len(m.job.Ops) {
		m.job.End = now
		return m.exit()
	}
	free := m.Spec(m.op).RequiredLocks.NotEmpty()
	next := m.requestPermission(m.op+1, now, Recorded)
	next.ReleaseLocks = free
	return next
}

// Denial is the daemon's answer that an opcode may never begin: a job that it depends on has ended in a wrong status.
type Denial struct {
	Canceled bool   `json:"canceled"` // the job is canceled; else it fails
	Text     string `json:"text"`
}

// Denied ends the job before the current opcode, for which permission was asked.
func (m *Machine) Denied(r Denial, now job.Timestamp) Step {
	m.expect(awaitingPermission)
	if r.Canceled {
		m.job.CancelUnstarted(job.Quote("Job canceled: "+r.Text), now)
		return m.exit()
	}
	return m.FailBeforeStart(job.ErrorResult("OpExecError", "Dependency error: "+r.Text), now)
}

// FailBeforeStart ends the job before the current opcode has begun: there is no executor for it, or permission was
// denied.
func (m *Machine) FailBeforeStart(result json.RawMessage, now job.Timestamp) Step {
	if m.phase != awaitingLocks {
		m.expect(awaitingPermission)
	}
	m.phase = executing
	return m.Done(Outcome{Failed: true, Result: result}, now)
}

// Cancel: a client cancels the job. While an opcode executes it is too late. The file is written then, so that the
// daemon sees in which opcode the job was when the cancel came, and can answer the client.
func (m *Machine) Cancel(now job.Timestamp) Step {
	if m.phase == executing {
		return Step{Write: Recorded, Op: m.op}
	}
	if m.phase != awaitingLocks {
		m.expect(awaitingPermission)
	}
	m.job.CancelUnstarted(job.Quote("Job canceled by request"), now)
	return m.exit()
}

// Reprioritise gives opcodes that have not begun another priority.
func (m *Machine) Reprioritise(priority int) Step {
	if m.phase == ended {
		panic(fmt.Sprintf("job %d: another priority after its end", m.job.ID))
	}
	m.job.Reprioritise(priority)
	return Step{Write: Recorded, Op: m.op}
}

func (m *Machine) requestPermission(op int, now job.Timestamp, w Write) Step {
	m.op, m.phase = op, awaitingPermission
	m.job.Ops[op].Take(job.Begin)
	m.job.Ops[op].Start = now
	return Step{Write: w, Action: Begin, Op: op}
}

func (m *Machine) exit() Step {
	m.phase = ended
	return Step{Write: Durable, ReleaseLocks: m.Spec(m.op).RequiredLocks.NotEmpty(), Action: Exit, Op: m.op}
}

// expect panics when an event comes in a phase in which it is impossible: the driver is broken, and going on could run
// something twice.
func (m *Machine) expect(p phase) {
	if m.phase != p {
		panic(fmt.Sprintf("job %d: event for phase %d in phase %d", m.job.ID, p, m.phase))
	}
}
