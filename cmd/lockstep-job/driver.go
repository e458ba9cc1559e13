package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
	"lockstep/actors/core/run"
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
	machine  *run.Machine
	files    *persistence.OSFiles
	hand     []json.RawMessage
	reporter *reporter

	signals      <-chan os.Signal
	priorityPath string

	events  chan event
	begun   chan struct{} // permission to begin has come
	kill    func()        // ends the opcode that executes
	killed  bool          // a client wants the job ended
	due     *time.Timer   // a write that may wait is due
	pending bool          // there is one
	cost    time.Duration // of the last write
}

// event is what an executor tells: a log entry, or how the opcode ended.
type event struct {
	kind    string // of the log entry
	payload json.RawMessage
	outcome *run.Outcome
}

func newDriver(m *run.Machine, files *persistence.OSFiles, hand []json.RawMessage, r *reporter) *driver {
	due := time.NewTimer(time.Hour)
	due.Stop()
	return &driver{machine: m, files: files, hand: hand, reporter: r, due: due, kill: func() {},
		events: make(chan event, 256), begun: make(chan struct{}, 1)}
}

// run returns when the job is final, and its end on the disk.
func (d *driver) run() {
	next := d.machine.Start(now())
	d.write(next.Write)
	// The confirmation was the permission to begin the first opcode.
	next = d.machine.Began(now())
	for {
		d.write(next.Write)
		switch next.Do {
		case run.Exit:
			return
		case run.Begin:
			if d.killed { // just when the last opcode had ended by itself
				next = d.machine.Cancel(now())
				continue
			}
			d.flush()
			d.ask(next.Op)
		case run.Execute:
			d.execute(next.Op)
		case run.Wait:
		}
		next = d.await()
	}
}

// ask waits for the permission to begin beside the driver, which has signals to
// hear meanwhile.
func (d *driver) ask(op int) {
	go func() {
		d.reporter.begin(op)
		d.begun <- struct{}{}
	}()
}

func (d *driver) execute(op int) {
	var secrets json.RawMessage
	if op < len(d.hand) {
		secrets = d.hand[op]
	}
	j := d.machine.Job()
	ctx, cancel := context.WithCancel(context.Background())
	d.kill = cancel
	x := execution{id: j.ID, livelock: j.Livelock, input: j.Ops[op].Input, secrets: secrets, killed: ctx.Done(),
		log: func(kind string, payload json.RawMessage) { d.events <- event{kind: kind, payload: payload} }}
	go func() {
		outcome := x.run()
		cancel()
		d.events <- event{outcome: &outcome}
	}()
}

// await is the next thing that happens: the executor says something, the
// permission comes, a signal, or the time for a write that has waited.
func (d *driver) await() run.Next {
	select {
	case e := <-d.events:
		if e.outcome != nil {
			return d.machine.Done(*e.outcome, now())
		}
		return d.machine.Log(e.kind, e.payload, now())
	case <-d.begun:
		return d.machine.Began(now())
	case s := <-d.signals:
		return d.signalled(s)
	case <-d.due.C:
		d.flush()
		return run.Next{}
	}
}

// signalled follows the conventions of Ganeti's job processes (queue.md 4.6),
// and SIGINT, which is ours: end what runs.
func (d *driver) signalled(s os.Signal) run.Next {
	switch s {
	case syscall.SIGTERM:
		return d.machine.Cancel(now())
	case syscall.SIGINT:
		d.killed = true
		d.kill()
		return d.machine.Cancel(now()) // nothing, in the middle of an opcode
	case syscall.SIGUSR1:
		priority, err := d.takePriority()
		if err != nil {
			fmt.Fprintf(os.Stderr, "lockstep-job %d: the priority that was sent cannot be read: %v\n", d.machine.Job().ID, err)
			return run.Next{}
		}
		return d.machine.Reprioritise(priority)
	default: // SIGHUP: a lock was granted; whoever waits for one looks for itself
		return run.Next{}
	}
}

func (d *driver) takePriority() (int, error) {
	content, err := os.ReadFile(d.priorityPath)
	if err != nil {
		return 0, err
	}
	_ = os.Remove(d.priorityPath) // the daemon does it too, in the end
	priority, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err == nil && (priority < -20 || priority > 19) {
		err = fmt.Errorf("%d is not between -20 and 19", priority)
	}
	return priority, err
}

// write does what a step demands. A change that only serves to be seen waits: a
// chatty command must not have the whole file rewritten for each line.
func (d *driver) write(w run.Write) {
	switch w {
	case run.Keep:
	case run.Visible:
		if !d.pending {
			d.pending = true
			d.due.Reset(max(visibleDelay, min(10*d.cost, visibleDelayMax)))
		}
	case run.Recorded, run.Durable:
		d.persist(w == run.Durable)
	}
}

// flush writes what waits.
func (d *driver) flush() {
	if d.pending {
		d.persist(false)
	}
}

// persist writes until it has succeeded: what the job did is not forgotten
// because a disk is full for a while, and the livelock says meanwhile that the
// job is not over.
func (d *driver) persist(durable bool) {
	d.pending = false
	d.due.Stop()
	j := d.machine.Job()
	path := layout.JobPath(int64(j.ID))
	encoded := job.Encode(j)
	began := time.Now()
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		err := d.files.Replace("run-job", path, encoded)
		if err == nil && durable {
			err = d.files.SyncDir("run-job", layout.QueueDir)
		}
		if err == nil {
			break
		}
		fmt.Fprintf(os.Stderr, "lockstep-job %d: %v; trying again in %v\n", j.ID, err, delay)
		time.Sleep(delay)
	}
	d.cost = time.Since(began)
	if !j.Status().Final() {
		d.reporter.report(encoded) // the end is told by the exit
	}
}

func now() job.Timestamp { return job.TimestampOf(time.Now()) }
