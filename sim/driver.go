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

// driver does what the step machine says, as the driver in lockstep-job does;
// where that one waits, this one is called back.
type driver struct {
	process  *process
	machine  *jobproc.Machine
	reporter *reporter
	locker   *locker

	pending bool        // a write that may wait
	due     func() bool // stops its timer
	kill    func()      // ends the opcode that executes; nil: none does
	killed  bool        // a client wants the job ended
	writing bool
	ended   bool     // the last write is done
	events  []func() // that came while it was writing
}

func (d *driver) now() job.Timestamp { return d.process.machine.world.clock.stamp() }

func (d *driver) begin() {
	// The confirmation was the permission to begin the first opcode.
	next := d.machine.Start(d.now())
	d.write(next.Write, func() { d.follow(d.machine.Began(d.now())) })
}

// follow writes, then does, what the machine has answered.
func (d *driver) follow(next jobproc.Next) {
	d.write(next.Write, func() {
		switch next.Do {
		case jobproc.Exit:
			d.ended = true
			d.process.machine.world.reached(moment{d.process.job, momentEnds})
			if d.process.reach(stageEnding) {
				d.leave(next.Free)
			}
		case jobproc.Begin:
			if d.killed { // just when the last opcode had ended by itself
				d.follow(d.machine.Cancel(d.now()))
				return
			}
			d.flush(func() { d.ask(next.Op, next.Free) })
		case jobproc.Lock:
			d.lock(next.Op)
		case jobproc.Execute:
			if d.process.mayGoOn() && d.process.reach(stageExecuting) {
				d.process.execute(next.Op)
			}
		case jobproc.Wait:
		}
	})
}

// leave gives the locks back, if that can be done soon, and ends.
func (d *driver) leave(free bool) {
	if !free {
		d.process.exit("")
		return
	}
	d.locker.free(leaveMax, func() { d.process.exit("") })
}

// ask gives the locks back, and asks for permission to begin.
func (d *driver) ask(op int, free bool) {
	begin := func() {
		d.process.asking = true
		d.process.machine.world.reached(moment{d.process.job, momentAsks})
		d.reporter.begin(op, func(refusal *jobproc.Refusal) {
			if refusal == nil {
				d.process.asking = false
				d.process.machine.world.notify(opPermitted{d.process, op})
			}
			d.event(func() {
				if refusal != nil {
					d.follow(d.machine.Refused(*refusal, d.now()))
					return
				}
				d.follow(d.machine.Began(d.now()))
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
	needs := d.machine.Hand(op).Needs
	d.locker.take(d.machine.Job().Ops[op].Priority, needs, func(withdrawn bool, err error) {
		if !withdrawn && err == nil { // it may have to finish a write before it can go on
			d.process.machine.world.notify(locksTaken{d.process, op, len(needs.AnyOf) > 0 && d.locker.lost})
		}
		d.event(func() {
			switch {
			case err != nil:
				d.follow(d.machine.Refuse(job.ErrorResult("LockError", "The locks cannot be taken: "+err.Error()), d.now()))
			case withdrawn:
				d.follow(d.machine.Withdrawn())
			default:
				d.process.holds = d.locker.taking.Held()
				d.follow(d.machine.Locked(d.now()))
			}
		})
	})
}

// event is something that an executor, the timer, the daemon or a signal says;
// it waits for a write to be over.
func (d *driver) event(f func()) {
	if d.process.life.over || d.ended {
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
			d.due = w.clock.after(visibleDelay, d.process.life, func() {
				d.process.then(func() { d.event(func() { d.flush(func() {}) }) })
			})
		}
		then()
	case jobproc.Recorded, jobproc.Durable:
		durable := w == jobproc.Durable && !d.process.machine.world.plants.UnsyncedEnds
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
		d.due()
	}
	d.writing = true
	d.attempt(job.Encode(d.machine.Job()), durable, writeRetryFirst, then)
}

func (d *driver) attempt(encoded []byte, durable bool, delay time.Duration, then func()) {
	w := d.process.machine.world
	again := func() {
		w.clock.after(delay, d.process.life, func() {
			d.attempt(encoded, durable, min(2*delay, writeRetryMax), then)
		})
	}
	d.process.then(func() {
		if !d.process.mayGoOn() { // the file is the next master's otherwise
			return
		}
		if d.process.machine.node.disk.Replace("run-job", paths.JobPath(d.process.job), encoded) != nil {
			again()
			return
		}
		if d.machine.Job().Status().Final() {
			d.process.permitted = false // nothing of the job works any more
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
	for len(d.events) > 0 && !d.writing && !d.ended && !d.process.life.over {
		f := d.events[0]
		d.events = d.events[1:]
		f()
	}
}
