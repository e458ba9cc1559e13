package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
	"lockstep/actors/core/run"
	"lockstep/persistence"
)

// visibleDelay is how long a change that only serves to be seen may wait to be
// superseded by the next.
const visibleDelay = 5 * time.Millisecond

// driver does what the step machine says: writes, asks, executes.
type driver struct {
	machine  *run.Machine
	files    *persistence.OSFiles
	hand     []json.RawMessage
	reporter *reporter

	events  chan event
	due     *time.Timer // a write that may wait is due
	pending bool        // there is one
	cost    time.Duration
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
	return &driver{machine: m, files: files, hand: hand, reporter: r, events: make(chan event, 256), due: due}
}

// run returns when the job is final, and its end on the disk.
func (d *driver) run() error {
	next := d.machine.Start(now())
	// The confirmation was the permission to begin the first opcode.
	d.write(next.Write)
	next = d.machine.Began(now())
	for {
		d.write(next.Write)
		switch next.Do {
		case run.Exit:
			return nil
		case run.Begin:
			d.flush()
			if err := d.reporter.begin(next.Op); err != nil {
				return fmt.Errorf("begin opcode %d: %w", next.Op, err)
			}
			next = d.machine.Began(now())
		case run.Execute:
			d.execute(next.Op)
			next = d.await()
		case run.Wait:
			next = d.await()
		}
	}
}

func (d *driver) execute(op int) {
	var secrets json.RawMessage
	if op < len(d.hand) {
		secrets = d.hand[op]
	}
	j := d.machine.Job()
	id, livelock, input := j.ID, j.Livelock, j.Ops[op].Input
	go func() {
		outcome := execute(id, livelock, input, secrets, func(kind string, payload json.RawMessage) {
			d.events <- event{kind: kind, payload: payload}
		})
		d.events <- event{outcome: &outcome}
	}()
}

// await is the next thing that the executor says, or the writing of what has
// waited long enough.
func (d *driver) await() run.Next {
	select {
	case e := <-d.events:
		if e.outcome != nil {
			return d.machine.Done(*e.outcome, now())
		}
		return d.machine.Log(e.kind, e.payload, now())
	case <-d.due.C:
		d.flush()
		return run.Next{}
	}
}

// write does what a step demands. A change that only serves to be seen waits: a
// chatty command must not have the whole file rewritten for each line, so it
// waits the longer the more a write costs.
func (d *driver) write(w run.Write) {
	switch w {
	case run.Keep:
	case run.Visible:
		if !d.pending {
			d.pending = true
			d.due.Reset(max(visibleDelay, 10*d.cost))
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
