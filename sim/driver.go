package sim

import (
	"time"

	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
	"lockstep/actors/core/run"
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
	machine  *run.Machine
	reporter *reporter

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
func (d *driver) follow(next run.Next) {
	d.write(next.Write, func() {
		switch next.Do {
		case run.Exit:
			d.ended = true
			if d.process.reach(stageEnding) {
				d.process.exit("")
			}
		case run.Begin:
			if d.killed { // just when the last opcode had ended by itself
				d.follow(d.machine.Cancel(d.now()))
				return
			}
			d.flush(func() {
				d.reporter.begin(next.Op, func() {
					d.event(func() { d.follow(d.machine.Began(d.now())) })
				})
			})
		case run.Execute:
			if d.process.reach(stageExecuting) {
				d.process.execute(next.Op)
			}
		case run.Wait:
		}
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

func (d *driver) write(w run.Write, then func()) {
	switch w {
	case run.Keep:
		then()
	case run.Visible:
		if !d.pending {
			d.pending = true
			w := d.process.machine.world
			d.due = w.clock.after(visibleDelay, d.process.life, func() {
				d.process.then(func() { d.event(func() { d.flush(func() {}) }) })
			})
		}
		then()
	case run.Recorded, run.Durable:
		durable := w == run.Durable && !d.process.machine.world.plants.UnsyncedEnds
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
		if w.disk.Replace("run-job", layout.JobPath(d.process.job), encoded) != nil {
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
			if w.disk.SyncDir("run-job", layout.QueueDir) != nil {
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
