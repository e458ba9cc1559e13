package jobproc

import (
	"fmt"
	"time"

	"lockstep/core/job"
)

// handle handles an event of an opcode, of locks, of a permission or of a client: at once, or after the write under way.
// After the final status, such events have no effect.
func (p *Process) handle(now time.Time, event func(now time.Time)) {
	switch {
	case p.stage != working:
	case p.writes.writing:
		p.held = append(p.held, event)
	default:
		event(now)
	}
}

// apply performs a step of the Machine: first its write, then the rest. A step that ends the job ends the questions for a permission and
// for locks, too.
func (p *Process) apply(now time.Time, s Step) {
	if s.Action == Exit { // a cancel may come while the process waits for a preparation, a permission or locks
		p.out.EndOpcode = true
		p.permission.cancel()
		p.locks.stop()
	}
	switch s.Write {
	case Keep:
	case Visible, Logged:
		p.writes.schedule(now, s.Write)
	case Recorded, Durable:
		p.write(now, s.Write == Durable, s)
		return
	}
	p.follow(now, s)
}

// write writes the current state of the job, and then follows the rest of the step.
func (p *Process) write(now time.Time, durable bool, rest Step) {
	p.afterWrite = rest
	p.writes.begin(now, &p.out, FileWrite{Content: p.machine.Encode(), Durable: durable})
}

// follow performs the action of a step whose write is done, or may wait.
func (p *Process) follow(now time.Time, s Step) {
	switch s.Action {
	case Wait:
	case Begin:
		p.begin(now, s)
	case Lock:
		p.out.Prepare, p.out.Op = true, s.Op
	case Execute:
		p.executing = true
		p.out.Execute, p.out.Op, p.out.Locks = true, s.Op, p.locks.held
	case Exit:
		p.stage = leaving
		// Waiting jobs need not wait then until the daemon has observed the end of this process.
		if !s.ReleaseLocks || p.locks.giveBack(now, &p.out, releaseTimeout) {
			p.exit()
		}
	}
}

// begin asks for the permission to begin an opcode, after the release of the locks if the step says so, and after all
// reports, so that the daemon knows that the former opcode has ended.
func (p *Process) begin(now time.Time, s Step) {
	switch {
	case p.killRequested: // the last opcode has ended by itself before the request reached it
		p.apply(now, p.machine.Cancel(job.TimestampOf(now)))
	case p.writes.pending:
		p.write(now, false, s)
	default:
		p.permission.op, p.permission.step = s.Op, awaitingRelease
		if !s.ReleaseLocks || p.locks.giveBack(now, &p.out, 0) {
			p.askWhenReported()
		}
	}
}

func (p *Process) askWhenReported() {
	p.permission.step = awaitingReports
	if !p.reports.busy() {
		p.permission.ask(&p.out)
	}
}

// permitted handles the answer of the daemon; nil is the permission.
func (p *Process) permitted(now time.Time, denial *Denial) {
	stamp := job.TimestampOf(now)
	if denial != nil {
		p.apply(now, p.machine.Denied(*denial, stamp))
		return
	}
	p.apply(now, p.machine.Permitted(stamp))
}

// handleLocks handles what an answer of the lock manager means.
func (p *Process) handleLocks(now time.Time, event locksEvent, err error) {
	switch event {
	case locksPending:
	case locksTaken:
		p.handle(now, func(now time.Time) { p.apply(now, p.machine.LocksAcquired(job.TimestampOf(now))) })
	case locksWithdrawn:
		p.handle(now, func(now time.Time) { p.apply(now, p.machine.LocksWithdrawn()) })
	case locksRefused:
		result := job.ErrorResult("LockError", "The locks cannot be taken: "+err.Error())
		p.handle(now, func(now time.Time) { p.apply(now, p.machine.FailBeforeStart(result, job.TimestampOf(now))) })
	case locksReleased:
		if p.stage == leaving {
			p.exit()
			return
		}
		p.askWhenReported()
	}
}

// abandonIfLost abandons the job between two attempts to write, if the queue's directory is missing for too long, or a
// client cancels the job meanwhile and no opcode executes.
func (p *Process) abandonIfLost() {
	lost := p.writes.loss.duration()
	switch {
	case !p.writes.loss.isLost() || p.writes.retryAt.IsZero():
		return
	case lost >= queueLossMax:
		p.abandonReason = fmt.Sprintf("for %v", lost.Round(time.Second))
	case p.cancelHeld && !p.executing:
		p.abandonReason = "and the process was told to end"
	default:
		return
	}
	p.stage, p.out.EndOpcode = abandoning, true
	if !p.executing {
		p.exitAbandoned()
	}
}

func (p *Process) exitAbandoned() {
	p.complain("the directory of the queue is gone, %s; the job ends here", p.abandonReason)
	p.stage, p.out.End = gone, &End{Abandoned: true}
}

func (p *Process) exit() { p.stage, p.out.End = gone, &End{} }

func (p *Process) complain(format string, args ...any) {
	p.out.Complaints = append(p.out.Complaints, fmt.Sprintf(format, args...))
}
