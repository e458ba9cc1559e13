package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// A change that only serves to be seen may wait to be superseded by the next: the
// longer the more a write costs, but not so long that people notice.
const (
	visibleDelay    = 5 * time.Millisecond
	visibleDelayMax = 40 * time.Millisecond
)

// driver does what the step machine says: writes, asks, executes.
type driver struct {
	machine  *jobproc.Machine
	lease    *lease
	files    *persistence.OSFiles
	reporter *reporter
	locker   *locker

	signals      <-chan os.Signal
	priorityPath string

	events   chan event
	begun    chan *jobproc.Denial // permission to begin has come, or will not
	unlock   func()               // stops taking locks, and returns when that has stopped
	kill     func()               // ends the opcode that executes
	executed <-chan struct{}      // closed when none does
	killed   bool                 // a client wants the job ended
	due      *time.Timer          // a write that may wait is due
	pending  bool                 // there is one
	dueAt    time.Time            // when, then
	talk     talk                 // what the opcode has to say
	held     []lock.Item          // for the opcode at hand
	cost     time.Duration        // of the last write
	size     int                  // of the file then, in bytes
}

// event is what an executor tells: log entries, what became of its locks, or how
// the opcode ended.
type event struct {
	entries []entry
	locked  *lockOutcome
	outcome *jobproc.Outcome
}

func newDriver(m *jobproc.Machine, e *lease, files *persistence.OSFiles, r *reporter, l *locker) *driver {
	due := time.NewTimer(time.Hour)
	due.Stop()
	none := make(chan struct{})
	close(none)
	return &driver{executed: none, machine: m, lease: e, files: files, reporter: r, locker: l, due: due, kill: func() {}, unlock: func() {},
		events: make(chan event, 256), begun: make(chan *jobproc.Denial, 1)}
}

// run returns when the job is final, and its end on the disk.
func (d *driver) run() {
	next := d.machine.Start(now())
	d.write(next.Write)
	// The confirmation was the permission to begin the first opcode.
	next = d.machine.Permitted(now())
	for {
		d.write(next.Write)
		switch next.Action {
		case jobproc.Exit:
			d.leave(next.ReleaseLocks)
			return
		case jobproc.Begin:
			if d.killed { // just when the last opcode had ended by itself
				next = d.machine.Cancel(now())
				continue
			}
			d.flush()
			d.ask(next.Op, next.ReleaseLocks)
		case jobproc.Lock:
			d.lock(next.Op)
		case jobproc.Execute:
			d.lease.check()
			d.execute(next.Op)
		case jobproc.Wait:
		}
		next = d.await()
	}
}

// leaveMax is how long a process that ends tries to give its locks back itself.
const leaveMax = time.Second

// leave is the end: what waits for the locks need not wait until the daemon has
// seen this process go.
func (d *driver) leave(free bool) {
	d.unlock()
	if !free {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveMax)
	defer cancel()
	d.locker.free(ctx)
}

// ask gives the locks back and waits for the permission to begin, beside the
// driver, which has signals to hear meanwhile.
func (d *driver) ask(op int, free bool) {
	go func() {
		if free {
			d.locker.free(context.Background())
		}
		d.begun <- d.reporter.begin(op)
	}()
}

// lock takes the locks of an opcode, beside the driver.
func (d *driver) lock(op int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	d.unlock = func() {
		cancel()
		<-done
	}
	priority, needs := d.machine.Job().Ops[op].Priority, d.machine.Spec(op).RequiredLocks
	tell := func(e event) {
		select {
		case d.events <- e:
		case <-ctx.Done():
		}
	}
	prepare := d.preparation(op, ctx.Done(), tell)
	go func() {
		defer close(done)
		outcome := lockOutcome{err: prepare(), prepared: true}
		if outcome.err == nil {
			outcome = d.locker.take(ctx, priority, needs)
		}
		tell(event{locked: &outcome})
	}()
}

// preparation is what an opcode does before it takes its locks: only one does.
func (d *driver) preparation(op int, over <-chan struct{}, tell func(event)) func() error {
	input := d.machine.Job().Ops[op].Input
	if job.OpID(input) != "OP_TEST_JQUEUE" {
		return func() error { return nil }
	}
	x := execution{input: input, killed: over, said: func(entries []entry) { tell(event{entries: entries}) }}
	return x.expandNames
}

// lockedOr is what comes after the attempt to take locks.
func (d *driver) lockedOr(o lockOutcome) jobproc.Step {
	switch {
	case o.prepared:
		return d.machine.FailBeforeStart(job.ErrorResult("OpPrereqError", o.err.Error()), now())
	case o.err != nil:
		return d.machine.FailBeforeStart(job.ErrorResult("LockError", "The locks cannot be taken: "+o.err.Error()), now())
	case o.withdrawn:
		return d.machine.LocksWithdrawn()
	default:
		d.held = o.held
		return d.machine.LocksAcquired(now())
	}
}

func (d *driver) execute(op int) {
	j := d.machine.Job()
	ctx, cancel := context.WithCancel(context.Background())
	executed := make(chan struct{})
	d.kill, d.executed = cancel, executed
	x := execution{id: j.ID, lease: d.lease, livelock: j.Livelock, input: j.Ops[op].Input, secrets: d.machine.Spec(op).Secrets, locks: d.held, killed: ctx.Done(),
		command: d.machine.Spec(op).Command, ask: d.reporter.ask,
		said: func(entries []entry) { d.events <- event{entries: entries} }}
	go func() {
		outcome := x.run()
		close(executed)
		cancel()
		d.events <- event{outcome: &outcome}
	}()
}

// await is the next thing that happens: the executor says something, the
// permission comes, a signal, or the time for a write that has waited.
func (d *driver) await() jobproc.Step {
	select {
	case e := <-d.events:
		switch {
		case e.outcome != nil:
			return d.machine.Done(*e.outcome, now())
		case e.locked != nil:
			return d.lockedOr(*e.locked)
		default:
			return d.log(e.entries)
		}
	case refusal := <-d.begun:
		d.held = nil
		if refusal != nil {
			return d.machine.Denied(*refusal, now())
		}
		return d.machine.Permitted(now())
	case s := <-d.signals:
		return d.signalled(s)
	case <-d.due.C:
		d.flush()
		return jobproc.Step{}
	}
}

// signalled follows the conventions of Ganeti's job processes (queue.md 4.6),
// and SIGINT, which is ours: end what runs.
func (d *driver) signalled(s os.Signal) jobproc.Step {
	switch s {
	case syscall.SIGTERM:
		return d.machine.Cancel(now())
	case syscall.SIGINT:
		d.killed = true
		d.kill()
		return d.machine.Cancel(now()) // in the middle of an opcode it only writes
	case syscall.SIGUSR1:
		priority, err := d.takePriority()
		if err != nil {
			fmt.Fprintf(os.Stderr, "lockstep-job %d: the priority that was sent cannot be read: %v\n", d.machine.Job().ID, err)
			return jobproc.Step{}
		}
		d.locker.reprioritise(priority)
		return d.machine.Reprioritise(priority)
	default: // SIGHUP is for who waits for a lock and does not do so on a connection
		return jobproc.Step{}
	}
}

// takePriority leaves the message to the daemon, which removes it when the job has
// ended: a newer one may have taken its place since it was read.
func (d *driver) takePriority() (int, error) {
	content, err := os.ReadFile(d.priorityPath)
	if err != nil {
		return 0, err
	}
	priority, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err == nil && (priority < -20 || priority > 19) {
		err = fmt.Errorf("%d is not between -20 and 19", priority)
	}
	return priority, err
}

// write does what a step demands. A change that only serves to be seen waits: a
// chatty command must not have the whole file rewritten for each line.
func (d *driver) write(w jobproc.Write) {
	switch w {
	case jobproc.Keep:
	case jobproc.Visible:
		d.writeWithin(max(visibleDelay, min(10*d.cost, visibleDelayMax)))
	case jobproc.Logged:
		d.writeWithin(logDelay(d.size, d.talk.lasts(time.Now()), d.cost))
	case jobproc.Recorded, jobproc.Durable:
		d.persist(w == jobproc.Durable)
	}
}

// writeWithin has the file written in a while, or sooner if that is due already.
func (d *driver) writeWithin(delay time.Duration) {
	at := time.Now().Add(delay)
	if d.pending && !at.Before(d.dueAt) {
		return
	}
	d.pending, d.dueAt = true, at
	d.due.Reset(delay)
}

// log records what the opcode has said.
func (d *driver) log(entries []entry) (next jobproc.Step) {
	for _, e := range entries {
		next = d.machine.Log(e.kind, e.payload, now())
	}
	return next
}

// flush writes what waits.
func (d *driver) flush() {
	if d.pending {
		d.persist(false)
	}
}

// persist writes until it has succeeded: what the job did is not forgotten
// because a disk is full for a while, and the livelock says meanwhile that the
// job is not over. It does not return where the queue's directory is gone for good.
func (d *driver) persist(durable bool) {
	d.pending = false
	d.due.Stop()
	j := d.machine.Job()
	path := paths.JobPath(int64(j.ID))
	encoded := job.Encode(j)
	began := time.Now()
	var away absence
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		d.lease.check() // the file is the next master's otherwise
		err := d.files.Replace("run-job", path, encoded)
		if err == nil && durable {
			err = d.files.SyncDir("run-job", paths.QueueDir)
		}
		if err == nil {
			break
		}
		fmt.Fprintf(os.Stderr, "lockstep-job %d: %v; trying again in %v\n", j.ID, err, delay)
		d.pause(delay, away.after(err, time.Now()))
	}
	d.cost, d.size = time.Since(began), len(encoded)
	if !j.Status().Final() {
		d.reporter.report(encoded) // the end is told by the exit
	}
}

func now() job.Timestamp { return job.TimestampOf(time.Now()) }
