// Package jobproc decides everything that a job process does (design.md "Run"; queue.md 4.6). It is pure: its state
// machines take events with the time and return actions. The program lockstep-job performs the actions with real files,
// sockets and commands; the simulator performs the same actions with simulated ones.
//
//   - Process is the whole job process after the start handshake. It takes permissions, answers of the daemon, output
//     and ends of opcodes, client orders and results of writes. It returns writes of the job file, calls to the daemon
//     and the start and end of opcodes, and it decides what is repeated, and when.
//   - Machine is the part of Process that knows the opcodes. It changes the job and says how durably each change must be
//     written.
//   - LockAcquirer is the part of Process that decides the calls by which an opcode gets its locks.
//   - CommandStop decides the signals that end a command, and LeaseGuard how a process ends whose lease is over.
//
// All state is in memory. What must survive the end of the process is in the job file, which the job process alone writes
// after the handshake.
package jobproc

import (
	"encoding/json"
	"fmt"

	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// Write says how the job file must be written before the Action of a Step.
type Write uint8

const (
	// Keep: nothing has changed.
	Keep Write = iota
	// Visible: the change only serves to be seen. The write may wait for some milliseconds, and one write may contain
	// several changes.
	Visible
	// Logged: only a log has grown. The write may wait longer than for Visible, in proportion to the size of the file, so
	// that a command with endless output does not keep the disk busy.
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
	// Begin: ask the daemon for the permission to begin opcode Op. The first opcode needs no question: the confirmation
	// of the start is its permission.
	Begin
	// Lock: take the locks of opcode Op.
	Lock
	// Execute opcode Op.
	Execute
	// Exit: the job is final, or a try of it has ended; no write follows.
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

// Machine decides the course of one job: it owns the job of one process and the phase of its current opcode. The caller writes Job() as
// the steps say and does not change it.
//
// Invariant: the opcodes before op have succeeded; those after op are queued until the job ends.
type Machine struct {
	job   *job.Job
	specs []LaunchSpec // by opcode
	op    int          // index of the current opcode
	phase phase
	log   logBounds // of the current opcode

	loggedBefore job.Output // the output that former processes have written

	lacksOutput bool // the log of an ended opcode has dropped entries
	lastTry     bool // a client wants the job ended: no try follows
}

type phase uint8

const (
	notStarted         phase = iota // before Start
	awaitingPermission              // opcode op is waiting; the permission is asked for
	awaitingLocks                   // opcode op is waiting; its locks are asked for
	executing                       // opcode op is running
	ended                           // the job is final, or a try has ended
)

// New takes over a job of which no process has taken up what is left: it has at least one opcode; the first ones have succeeded, the next
// one is queued or waits for its next try, and all others are queued. Any other job is an error,
// because to run an opcode twice is worse than not to run it. specs has the LaunchSpec of each opcode, by index; a missing
// one is empty.
func New(j *job.Job, specs []LaunchSpec) (*Machine, error) {
	if len(j.Ops) == 0 {
		return nil, fmt.Errorf("job %d has no opcodes", j.ID)
	}
	first := j.FirstUnfinished()
	for i := range j.Ops {
		op := &j.Ops[i]
		if ok := i < first && op.Status == job.Success || op.Status == job.Queued && (i == 0 || i > first) || i == first && op.AwaitsTry(); !ok {
			return nil, fmt.Errorf("job %d has begun before: opcode %d is %s", j.ID, i, op.Status)
		}
	}
	m := &Machine{job: j, specs: specs, op: first, loggedBefore: loggedOf(j)}
	m.log.total = m.loggedBefore // places in the output go on from there
	return m, nil
}

// loggedOf is the output in the log of a job.
func loggedOf(j *job.Job) job.Output {
	var logged job.OutputAccount
	for _, entry := range j.LogAfter(0) {
		logged.Add(entry.Type, entry.Payload)
	}
	return logged.Delivered.Plus(logged.Missing)
}

// Job is the current state, to be encoded and written.
func (m *Machine) Job() *job.Job { return m.job }

// Start is the first event: the daemon has confirmed the start.
func (m *Machine) Start(now job.Timestamp) Step {
	m.expect(notStarted)
	if m.job.Start.IsZero() { // else a former process has begun the job
		m.job.Start = now
	}
	return m.requestPermission(m.op, now, Visible)
}

// Permitted: the daemon permits the current opcode to begin. It takes its locks or executes, or fails at once if its LaunchSpec has a
// failure.
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

// LocksAcquired: the current opcode has its locks, and executes.
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
	return Step{Write: Visible, Action: Execute, Op: m.op}
}

// Spec is the LaunchSpec of an opcode; the zero LaunchSpec if there is none.
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
	m.log.encode(m.job, m.op) // it came before
	m.log.add(m.job, m.op, now, kind, payload)
	return Step{Write: Logged, Action: Wait, Op: m.op}
}

// Output records output of a command on a stream, job.LogStdout or job.LogStderr, as it was read; without a byte it records the end of the
// stream. The Machine owns the bytes from then on.
func (m *Machine) Output(stream string, output []byte, now job.Timestamp) Step {
	m.expect(executing)
	m.log.output(m.job, m.op, now, stream, output)
	return Step{Write: Logged, Action: Wait, Op: m.op}
}

// Encode is the content of the job file for the current state.
func (m *Machine) Encode() []byte {
	m.log.encode(m.job, m.op)
	return job.Encode(m.job)
}

// Done: the opcode has ended. A failure ends the job, unless another try follows: then the process ends, and the opcode waits. After a
// success, the same write sets the next opcode waiting, so that the job never shows queued again (design.md "Differences").
func (m *Machine) Done(o Outcome, now job.Timestamp) Step {
	m.expect(executing)
	op := &m.job.Ops[m.op]
	m.log.end(m.job, m.op, now)
	m.lacksOutput = m.lacksOutput || m.log.dropped
	if spec := m.Spec(m.op); o.Failed && !m.lastTry && spec.triesAgain(o.Result) {
		op.EndTry(o.Result, now)
		return m.exit()
	}
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
	write := Recorded
	if spec := m.Spec(m.op); spec.triesAgainIfLost() {
		// A power loss that took this end back would have the opcode tried again, and the next one with it, whatever its policy is.
		write = Durable
	}
	next := m.requestPermission(m.op+1, now, write)
	// Released after the write of the result, on which the next owner of the locks may build.
	next.ReleaseLocks = free
	return next
}

// Denial is the daemon's answer that an opcode may never begin, because a job on which the opcode depends has ended with
// a status that the dependency does not name.
type Denial struct {
	Canceled bool   `json:"canceled"` // the job is canceled; false: it fails
	Text     string `json:"text"`     // the reason
}

// Denied: the daemon denies the current opcode. The job ends.
func (m *Machine) Denied(r Denial, now job.Timestamp) Step {
	m.expect(awaitingPermission)
	if r.Canceled {
		m.job.CancelUnstarted(rawjson.Quote(CanceledByDependency+r.Text), now)
		return m.exit()
	}
	return m.FailBeforeStart(job.ErrorResult("OpExecError", DependencyFailed+r.Text), now)
}

// FailBeforeStart fails the current opcode before it executes, and with it the job: the opcode cannot run, or does not get
// its permission or its locks.
func (m *Machine) FailBeforeStart(result json.RawMessage, now job.Timestamp) Step {
	if m.phase != awaitingLocks {
		m.expect(awaitingPermission)
	}
	m.phase = executing
	return m.Done(Outcome{Failed: true, Result: result}, now)
}

// Cancel: a client cancels the job. While an opcode executes, the cancel comes too late and only writes the file: the
// daemon then sees which opcode was running when the cancel came, and answers the client.
func (m *Machine) Cancel(now job.Timestamp) Step {
	if m.phase == executing {
		return Step{Write: Recorded, Op: m.op}
	}
	if m.phase != awaitingLocks {
		m.expect(awaitingPermission)
	}
	m.job.CancelUnstarted(rawjson.Quote(CanceledByRequest), now)
	return m.exit()
}

// Kill is Cancel of a client who also ends the opcode that executes: it is not tried again.
func (m *Machine) Kill(now job.Timestamp) Step {
	m.lastTry = true
	return m.Cancel(now)
}

// Reprioritise gives opcodes that do not execute yet another priority.
func (m *Machine) Reprioritise(priority int) Step {
	if m.phase == ended {
		panic(fmt.Sprintf("job %d: another priority after its end", m.job.ID))
	}
	m.job.Reprioritise(priority)
	return Step{Write: Recorded, Op: m.op}
}

func (m *Machine) requestPermission(op int, now job.Timestamp, w Write) Step {
	m.op, m.phase = op, awaitingPermission
	spec := m.Spec(op)
	m.log = m.log.next(len(m.job.Ops[op].Log), spec.logLimit())
	m.job.Ops[op].Take(job.Begin)
	m.job.Ops[op].Start = now
	return Step{Write: w, Action: Begin, Op: op}
}

func (m *Machine) exit() Step {
	m.phase = ended
	// The end of the job, or of the try, is durable before the locks are released and the process exits: what a power loss takes back, no
	// other job has built on.
	return Step{Write: Durable, ReleaseLocks: m.Spec(m.op).RequiredLocks.NotEmpty(), Action: Exit, Op: m.op}
}

// expect panics when an event comes in a phase in which it is impossible: the caller is broken, and to go on could run
// something twice.
func (m *Machine) expect(p phase) {
	if m.phase != p {
		panic(fmt.Sprintf("job %d: event for phase %d in phase %d", m.job.ID, p, m.phase))
	}
}
