package sim

import (
	"lockstep/core/job"
	"lockstep/core/lock"
)

// JobEvent is an event in the life of a job, for checkers of other packages.
type JobEvent struct {
	Kind JobEventKind
	ID   int64
	// Job is the content of the file. Only JobWritten has it. It must not be changed.
	Job *job.Job
	// Locks are the locks of the opcode, in lock order. Only LocksTaken has them. They must not
	// be changed.
	Locks []lock.Item
}

// JobEventKind is the kind of an event of a job.
type JobEventKind uint8

// The kinds, in the order of a job's life. From OpPermitted to OpEnded they repeat for each
// opcode; JobPicked permits the first opcode.
const (
	JobWritten   JobEventKind = iota + 1 // its file has changed, and is a job
	JobPicked                            // the scheduler has chosen it to start
	OpPermitted                          // its process may begin the next opcode
	LocksTaken                           // its process has all locks of the opcode
	OpStarted                            // the opcode executes
	OpEnded                              // the opcode has ended
	ProcessEnded                         // its process is gone
	OrderSent                            // a client has sent a cancel or another priority
)

// JobEventOf converts an event that a checker gets. is reports whether it is an event of a job.
func JobEventOf(event any) (e JobEvent, is bool) {
	switch event := event.(type) {
	case fileChanged:
		return JobEvent{Kind: JobWritten, ID: event.id, Job: event.job}, event.job != nil
	case jobPicked:
		return JobEvent{Kind: JobPicked, ID: event.id}, true
	case opPermitted:
		return JobEvent{Kind: OpPermitted, ID: event.process.job}, true
	case locksTaken:
		return JobEvent{Kind: LocksTaken, ID: event.process.job, Locks: event.process.shell.jobproc.Locks()}, true
	case opcodeStarted:
		return JobEvent{Kind: OpStarted, ID: event.job}, true
	case opcodeEnded:
		return JobEvent{Kind: OpEnded, ID: event.process.job}, true
	case processEnded:
		return JobEvent{Kind: ProcessEnded, ID: event.process.job}, true
	case orderSent:
		return JobEvent{Kind: OrderSent, ID: event.id}, true
	}
	return JobEvent{}, false
}
