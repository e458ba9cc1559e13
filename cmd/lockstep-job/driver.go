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

// driver performs the actions of the step machine: it writes the job's file, asks for
// permissions and locks, and executes opcodes.
type driver struct {
	machine    *jobproc.Machine
	lease      *lease
	files      *persistence.OSFiles
	reporter   *reporter
	lockClient *lockClient

	signals      <-chan os.Signal
	priorityPath string

	events          chan event
	permissions     chan *jobproc.Denial // nil: the next opcode may begin; else why it never may
	cancelLocking   func()               // ends takeLocks, and returns when it has ended
	cancelExecution func()               // ends the executing opcode
	executionDone   <-chan struct{}      // closed when no opcode executes
	killRequested   bool                 // a client wants the job ended
	writeTimer      *time.Timer          // fires when the pending write is due
	writePending    bool                 // a write waits for writeTimer
	writeDue        time.Time            // when the pending write is due
	logBurst        logBurst             // of the executing opcode
	heldLocks       []lock.Item          // for the current opcode
	lastWriteTook   time.Duration        // duration of the last write
	lastWriteSize   int                  // size of the file at the last write, in bytes
}

// event is a message to the driver: log entries, the result of taking locks, or the outcome
// of the opcode.
type event struct {
	entries     []entry
	lockOutcome *lockOutcome
	outcome     *jobproc.Outcome
}

func newDriver(m *jobproc.Machine, e *lease, files *persistence.OSFiles, r *reporter, l *lockClient) *driver {
	due := time.NewTimer(time.Hour)
	due.Stop()
	none := make(chan struct{})
	close(none)
	return &driver{executionDone: none, machine: m, lease: e, files: files, reporter: r, lockClient: l, writeTimer: due, cancelExecution: func() {}, cancelLocking: func() {},
		events: make(chan event, 256), permissions: make(chan *jobproc.Denial, 1)}
}

// run runs the job, and returns when its final status is on the disk.
func (d *driver) run() {
	next := d.machine.Start(now())
	d.write(next.Write)
	// The confirmation was the permission to begin the first opcode.
	next = d.machine.Permitted(now())
	for {
		d.write(next.Write)
		switch next.Action {
		case jobproc.Exit:
			d.releaseLocks(next.ReleaseLocks)
			return
		case jobproc.Begin:
			if d.killRequested { // just when the last opcode had ended by itself
				next = d.machine.Cancel(now())
				continue
			}
			d.flushPending()
			d.requestPermission(next.Op, next.ReleaseLocks)
		case jobproc.Lock:
			d.takeLocks(next.Op)
		case jobproc.Execute:
			d.lease.check()
			d.execute(next.Op)
		case jobproc.Wait:
		}
		next = d.awaitNext()
	}
}

// releaseTimeout is how long a process that ends tries to release its locks itself.
const releaseTimeout = time.Second

// releaseLocks releases the locks at the end of the job, so that waiting jobs need not wait
// until the daemon has observed the end of this process.
func (d *driver) releaseLocks(free bool) {
	d.cancelLocking()
	if !free {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	d.lockClient.releaseAll(ctx)
}

// requestPermission releases the locks and waits for the permission to begin the opcode, on a
// goroutine, because the driver must handle signals in the meantime.
func (d *driver) requestPermission(op int, free bool) {
	go func() {
		if free {
			d.lockClient.releaseAll(context.Background())
		}
		d.permissions <- d.reporter.awaitPermission(op)
	}()
}

// takeLocks takes the locks of an opcode, on a goroutine.
func (d *driver) takeLocks(op int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	d.cancelLocking = func() {
		cancel()
		<-done
	}
	priority, needs := d.machine.Job().Ops[op].Priority, d.machine.Spec(op).RequiredLocks
	send := func(e event) {
		select {
		case d.events <- e:
		case <-ctx.Done():
		}
	}
	prepare := d.preparation(op, ctx.Done(), send)
	go func() {
		defer close(done)
		outcome := lockOutcome{err: prepare(), prepared: true}
		if outcome.err == nil {
			outcome = d.lockClient.acquire(ctx, priority, needs)
		}
		send(event{lockOutcome: &outcome})
	}()
}

// preparation returns what an opcode does before it takes its locks. Only OP_TEST_JQUEUE does
// anything.
func (d *driver) preparation(op int, cancelled <-chan struct{}, send func(event)) func() error {
	input := d.machine.Job().Ops[op].Input
	if job.OpID(input) != "OP_TEST_JQUEUE" {
		return func() error { return nil }
	}
	x := execution{input: input, killed: cancelled, emit: func(entries []entry) { send(event{entries: entries}) }}
	return x.expandNames
}

// afterLocking returns the next step after the attempt to take locks.
func (d *driver) afterLocking(o lockOutcome) jobproc.Step {
	switch {
	case o.prepared:
		return d.machine.FailBeforeStart(job.ErrorResult("OpPrereqError", o.err.Error()), now())
	case o.err != nil:
		return d.machine.FailBeforeStart(job.ErrorResult("LockError", "The locks cannot be taken: "+o.err.Error()), now())
	case o.withdrawn:
		return d.machine.LocksWithdrawn()
	default:
		d.heldLocks = o.held
		return d.machine.LocksAcquired(now())
	}
}

func (d *driver) execute(op int) {
	j := d.machine.Job()
	ctx, cancel := context.WithCancel(context.Background())
	executed := make(chan struct{})
	d.cancelExecution, d.executionDone = cancel, executed
	x := execution{id: j.ID, lease: d.lease, livelock: j.Livelock, input: j.Ops[op].Input, secrets: d.machine.Spec(op).Secrets, locks: d.heldLocks, killed: ctx.Done(),
		command: d.machine.Spec(op).Command, ask: d.reporter.ask,
		emit: func(entries []entry) { d.events <- event{entries: entries} }}
	go func() {
		outcome := x.run()
		close(executed)
		cancel()
		d.events <- event{outcome: &outcome}
	}()
}

// awaitNext waits for the next event and handles it: a message of the executor, a permission,
// a signal, or the time of the pending write.
func (d *driver) awaitNext() jobproc.Step {
	select {
	case e := <-d.events:
		switch {
		case e.outcome != nil:
			return d.machine.Done(*e.outcome, now())
		case e.lockOutcome != nil:
			return d.afterLocking(*e.lockOutcome)
		default:
			return d.appendLog(e.entries)
		}
	case refusal := <-d.permissions:
		d.heldLocks = nil
		if refusal != nil {
			return d.machine.Denied(*refusal, now())
		}
		return d.machine.Permitted(now())
	case s := <-d.signals:
		return d.handleSignal(s)
	case <-d.writeTimer.C:
		d.flushPending()
		return jobproc.Step{}
	}
}

// handleSignal handles the signals of Ganeti's job processes (queue.md 4.6), and SIGINT, which
// is lockstep's own: end what runs.
func (d *driver) handleSignal(s os.Signal) jobproc.Step {
	switch s {
	case syscall.SIGTERM:
		return d.machine.Cancel(now())
	case syscall.SIGINT:
		d.killRequested = true
		d.cancelExecution()
		return d.machine.Cancel(now()) // in the middle of an opcode it only writes
	case syscall.SIGUSR1:
		priority, err := d.readPriority()
		if err != nil {
			fmt.Fprintf(os.Stderr, "lockstep-job %d: the priority that was sent cannot be read: %v\n", d.machine.Job().ID, err)
			return jobproc.Step{}
		}
		d.lockClient.reprioritise(priority)
		return d.machine.Reprioritise(priority)
	default: // SIGHUP is for owners that wait for a lock without a connection
		return jobproc.Step{}
	}
}

// readPriority reads the priority file. The daemon removes the file when the job has ended: a
// newer file may have replaced the one that was read.
func (d *driver) readPriority() (int, error) {
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

// write writes the job's file as the step requires. A change that is only for readers waits: a
// command with much output must not cause a write of the whole file for each line.
func (d *driver) write(w jobproc.Write) {
	switch w {
	case jobproc.Keep:
	case jobproc.Visible:
		d.scheduleWrite(max(visibleDelay, min(10*d.lastWriteTook, visibleDelayMax)))
	case jobproc.Logged:
		d.scheduleWrite(logDelay(d.lastWriteSize, d.logBurst.extend(time.Now()), d.lastWriteTook))
	case jobproc.Recorded, jobproc.Durable:
		d.persist(w == jobproc.Durable)
	}
}

// scheduleWrite schedules a write after the delay, or keeps an earlier pending one.
func (d *driver) scheduleWrite(delay time.Duration) {
	at := time.Now().Add(delay)
	if d.writePending && !at.Before(d.writeDue) {
		return
	}
	d.writePending, d.writeDue = true, at
	d.writeTimer.Reset(delay)
}

// appendLog adds log entries of the opcode to the job.
func (d *driver) appendLog(entries []entry) (next jobproc.Step) {
	for _, e := range entries {
		next = d.machine.Log(e.kind, e.payload, now())
	}
	return next
}

// flushPending makes the pending write, if there is one.
func (d *driver) flushPending() {
	if d.writePending {
		d.persist(false)
	}
}

// persist writes the job's file, and tries again until it succeeds: a full disk must not lose
// what the job did, and the held livelock shows that the job has not ended. It does not return
// if the queue's directory is missing for queueLossMax.
func (d *driver) persist(durable bool) {
	d.writePending = false
	d.writeTimer.Stop()
	j := d.machine.Job()
	path := paths.JobPath(int64(j.ID))
	encoded := job.Encode(j)
	began := time.Now()
	var loss queueLoss
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
		d.waitToRetry(delay, loss.observe(err, time.Now()))
	}
	d.lastWriteTook, d.lastWriteSize = time.Since(began), len(encoded)
	if !j.Status().Final() {
		d.reporter.report(encoded) // the exit reports the end
	}
}

func now() job.Timestamp { return job.TimestampOf(time.Now()) }
