package jobs

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// Processes is the port that starts, adopts, signals and watches job processes. The actor `to` receives messages.ProcessNamed,
// ProcessConfirmed and HandshakeFailed, and last, exactly once, ProcessGone when no process of the job is left. attempt numbers a start,
// uniquely in a daemon's life.
//
// Ganeti's job process reports nothing, so the port watches the file of its job: `to` receives
// messages.ProcessReported, without the content, after the process has written the file.
type Processes interface {
	// Start spawns the process of a job.
	Start(attempt uint64, job Job, to *actor.PID)
	// Confirm permits a named process to act and sends it its launch spec (queue.md 4.5,
	// step 5).
	Confirm(attempt uint64, launch []byte)
	// Abandon ends a process that is not confirmed. It does nothing to a confirmed process.
	Abandon(attempt uint64)
	// Tell sends an order to a confirmed process. It does nothing if the process is gone. Ganeti's process is ended by
	// StopBeforeNext if it executes no opcode.
	Tell(attempt uint64, order Order)
	// Adopt watches a process that was confirmed earlier. pid 0: unknown.
	Adopt(attempt uint64, job Job, pid int64, livelock string, to *actor.PID)
	// Probe looks at the lock file of an adopted process now: the process may have released it and live on.
	Probe(attempt uint64)
}

// Job identifies the job whose process is started or adopted, with what its start needs.
type Job struct {
	ID      int64
	Program messages.JobProgram
	Start   int64 // number of the start in the life of the job, from 1
}

// Order is what a client wants of a running job process: an earlier end, or another priority (queue.md 4.6).
type Order struct {
	Kind     OrderKind
	Priority int // for TakePriority, -20 to 19
}

// OrderKind says what an Order wants: to cancel, to kill, or to change the priority.
type OrderKind uint8

const (
	// StopBeforeNext: cancel the job unless it executes an opcode.
	StopBeforeNext OrderKind = iota
	// EndNow: end the opcode that runs, by force if necessary, and with it the job.
	EndNow
	// TakePriority: opcodes that have not started take Order.Priority.
	TakePriority
)
