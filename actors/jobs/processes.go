package jobs

import "github.com/asynkron/protoactor-go/actor"

// Processes is the port to job processes. News goes to the actor named, as
// messages.ProcessNamed, ProcessConfirmed, HandshakeFailed and, last and exactly
// once, ProcessGone: nothing of the process is left then. attempt numbers a
// start; no number is used twice in a daemon's life.
type Processes interface {
	// Start spawns the process of a job.
	Start(attempt uint64, id int64, to *actor.PID)
	// Confirm permits a named process to act and gives it its launch
	// data (queue.md 4.5, step 5).
	Confirm(attempt uint64, launch []byte)
	// Abandon makes away with a process that has not been confirmed; one that
	// has is left alone.
	Abandon(attempt uint64)
	// Tell passes an order to a confirmed process. One that is not there any
	// more takes none.
	Tell(attempt uint64, order Order)
	// Adopt watches a process that was confirmed earlier. pid 0: not known.
	Adopt(attempt uint64, id int64, pid int64, livelock string, to *actor.PID)
}

// Order is what a running job process can be told (queue.md 4.6).
type Order struct {
	Kind     OrderKind
	Priority int // for TakePriority, -20 to 19
}

// OrderKind is the kind of an Order.
type OrderKind uint8

const (
	// StopBeforeNext: cancel the job if it is not in the middle of an opcode.
	StopBeforeNext OrderKind = iota
	// EndNow: end the opcode that runs, by force if need be, and the job with it.
	EndNow
	// TakePriority: opcodes that have not started take Order.Priority.
	TakePriority
)
