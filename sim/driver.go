package sim

import (
	"time"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/paths"
)

// As in lockstep-job.
const (
	visibleDelay    = 5 * time.Millisecond
	writeRetryFirst = 100 * time.Millisecond
	writeRetryMax   = 5 * time.Second
)

// driver performs the actions of the step machine, as the driver in lockstep-job does. Where
// that one blocks, this one has a callback.
type driver struct {
	process  *process
	machine  *jobproc.Machine
	reporter *reporter
	locker   *locker

	pending   bool        // a write that may wait
	stopTimer func() bool // stops its timer
	kill      func()      // ends the opcode that executes; nil: none does
	killed    bool        // a client wants the job ended
	writing   bool
	ended     bool     // the last write is done
	events    []func() // that came while it was writing
}

func (d *driver) now() job.Timestamp { return d.process.machine.world.clock.Stamp() }

func (d *driver) begin() {
	// The confirmation was the permission to begin the first opcode.
	next := d.machine.Start(d.now())
	d.write(next.Write, func() { d.apply(d.machine.Permitted(d.now())) })
}

// apply writes what the machine asks for, and then performs its action.
func (d *driver) apply(next jobproc.Step) {
	d.write(next.Write, func() {
		switch next.Action {
		case jobproc.Exit:
			d.ended = true
			d.process.machine.world.momentReached(processMoment{d.process.job, momentEnds})
			if d.process.reach(stageEnding) {
				d.finish(next.ReleaseLocks)
			}
		case jobproc.Begin:
			if d.killed { // just when the last opcode had ended by itself
				d.apply(d.machine.Cancel(d.now()))
				return
			}
			d.flush(func() { d.askToBegin(next.Op, next.ReleaseLocks) })
		case jobproc.Lock:
			d.lock(next.Op)
		case jobproc.Execute:
			if d.process.checkLease() && d.process.reach(stageExecuting) {
				d.process.execute(next.Op)
			}
		case jobproc.Wait:
		}
	})
}

// finish gives the locks back, if that works soon, and ends the process.
func (d *driver) finish(free bool) {
	if !free {
		d.process.exit("")
		return
	}
	d.locker.free(leaveMax, func() { d.process.exit("") })
}

// askToBegin gives the locks back, and asks for permission to begin.
func (d *driver) askToBegin(op int, free bool) {
	begin := func() {
		d.process.awaitsPermission = true
		d.process.machine.world.momentReached(processMoment{d.process.job, momentAsks})
		d.reporter.begin(op, func(refusal *jobproc.Denial) {
			if refusal == nil {
				d.process.awaitsPermission = false
				d.process.machine.world.notify(opPermitted{d.process, op})
			}
			d.handle(func() {
				if refusal != nil {
					d.apply(d.machine.Denied(*refusal, d.now()))
					return
				}
				d.apply(d.machine.Permitted(d.now()))
			})
		})
	}
	if free {
		d.locker.free(0, begin)
		return
	}
	begin()
}

// lock takes the locks of an opcode.
func (d *driver) lock(op int) {
	needs := d.machine.Spec(op).RequiredLocks
	d.locker.take(d.machine.Job().Ops[op].Priority, needs, func(withdrawn bool, err error) {
		if !withdrawn && err == nil { // it may have to finish a write before it can go on
			d.process.machine.world.notify(locksTaken{d.process, op, len(needs.AnyOf) > 0 && d.locker.answerLost})
		}
		d.handle(func() {
			switch {
			case err != nil:
				d.apply(d.machine.FailBeforeStart(job.ErrorResult("LockError", "The locks cannot be taken: "+err.Error()), d.now()))
			case withdrawn:
				d.apply(d.machine.LocksWithdrawn())
			default:
				d.process.heldLocks = d.locker.locking.Acquired()
				d.apply(d.machine.LocksAcquired(d.now()))
			}
		})
	})
}

// handle runs f for an event from an executor, a timer, the daemon or a signal. It waits until
// no write is under way.
func (d *driver) handle(f func()) {
	if d.process.life.Over || d.ended {
		return
	}
	if d.writing {
		d.events = append(d.events, f)
		return
	}
	f()
}

func (d *driver) write(w jobproc.Write, then func()) {
	switch w {
	case jobproc.Keep:
		then()
	case jobproc.Visible, jobproc.Logged:
		if !d.pending {
			d.pending = true
			w := d.process.machine.world
			d.stopTimer = w.clock.After(visibleDelay, d.process.life, func() {
				d.process.then(func() { d.handle(func() { d.flush(func() {}) }) })
			})
		}
		then()
	case jobproc.Recorded, jobproc.Durable:
		durable := w == jobproc.Durable && !d.process.machine.world.mutations.UnsyncedEnds
		d.persist(durable, then)
	}
}

func (d *driver) flush(then func()) {
	if !d.pending {
		then()
		return
	}
	d.persist(false, then)
}

// persist writes until it has succeeded.
func (d *driver) persist(durable bool, then func()) {
	if d.pending {
		d.pending = false
		d.stopTimer()
	}
	d.writing = true
	d.tryWrite(job.Encode(d.machine.Job()), durable, writeRetryFirst, then)
}

func (d *driver) tryWrite(encoded []byte, durable bool, delay time.Duration, then func()) {
	w := d.process.machine.world
	again := func() {
		w.clock.After(delay, d.process.life, func() {
			d.tryWrite(encoded, durable, min(2*delay, writeRetryMax), then)
		})
	}
	d.process.then(func() {
		if !d.process.checkLease() { // the file is the next master's otherwise
			return
		}
		if d.process.machine.node.disk.Replace("run-job", paths.JobPath(d.process.job), encoded) != nil {
			again()
			return
		}
		if d.machine.Job().Status().Final() {
			d.process.permitted = false // nothing of the job works now
		}
		if !durable {
			d.written(encoded, then)
			return
		}
		d.process.then(func() {
			if d.process.machine.node.disk.SyncDir("run-job", paths.QueueDir) != nil {
				again()
				return
			}
			d.written(encoded, then)
		})
	})
}

func (d *driver) written(encoded []byte, then func()) {
	d.writing = false
	if !d.machine.Job().Status().Final() {
		d.reporter.report(encoded)
	}
	then()
	for len(d.events) > 0 && !d.writing && !d.ended && !d.process.life.Over {
		f := d.events[0]
		d.events = d.events[1:]
		f()
	}
}
