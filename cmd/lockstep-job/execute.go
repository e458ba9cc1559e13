package main

import (
	"encoding/json"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/limits"
	"lockstep/core/lock"
	"lockstep/core/progress"
	"lockstep/edge/cgroup"
)

// execution is what an opcode needs to be prepared or executed on a separate goroutine.
type execution struct {
	id  job.ID
	op  int // index of the opcode
	try int // from 1
	// loggedTry is the number according to the job's log. In Ganeti mode a failover loses the record that try is from.
	loggedTry int
	name      string // of the job; "": it has none
	socket    string // of clients of the daemon
	livelock  string
	input     json.RawMessage
	command   json.RawMessage // of a catalogue opcode, as parameters of OP_RUN_COMMAND; nil for other opcodes
	secrets   json.RawMessage // an object with the parameters that are missing in input; null: none
	runAs     *jobproc.User   // of the command; nil: the daemon's user
	account   *jobproc.Account
	locks     []lock.Item     // held for the opcode
	killed    <-chan struct{} // closed when the opcode must end
	lease     *lease
	limits    limits.Limits                                     // of the command
	group     *cgroup.Group                                     // of the command; nil: it has none
	ask       func(method string, args []any, result any) error // calls the daemon, and waits for a daemon
	emit      func([]jobproc.LogEntry)                          // returns when the shell has the entries
	relay     *relay
	keep      *keeper

	progressPath string              // of the pipe of commands
	progressed   func(progress.Line) // tells the shell what the command says; does not block
}

func (x *execution) log(kind string, payload json.RawMessage) {
	x.emit([]jobproc.LogEntry{{Kind: kind, Payload: payload}})
}

func (x *execution) complain(complaint string) { complain(x.emit, complaint) }

// run executes the opcode to its end. A dry run does nothing but check. An opcode without executor fails.
func (x *execution) run() jobproc.Outcome {
	if isDryRun(x.input) {
		return x.dryRun()
	}
	switch job.OpID(x.input) {
	case "OP_TEST_DELAY":
		return x.testDelay()
	case "OP_RUN_COMMAND":
		return x.runCommand(x.input)
	case "OP_TEST_JQUEUE":
		return x.testJqueue()
	case "OP_TEST_OS_PARAMS":
		return x.testOsParams()
	case "OP_CLUSTER_SET_PARAMS":
		return x.clusterSetParams()
	case "OP_CLUSTER_REDIST_CONF":
		return jobproc.Outcome{} // the configuration is distributed with every change
	case "OP_QUERY", "OP_QUERY_FIELDS", "OP_CLUSTER_QUERY":
		return x.query()
	default:
		if x.command != nil {
			return x.runCommand(x.command)
		}
		return unknownOpcode()
	}
}

func unknownOpcode() jobproc.Outcome { return failure("OpCodeUnknown", "Unknown opcode") }

func failure(class string, args ...any) jobproc.Outcome {
	return jobproc.Outcome{Failed: true, Result: job.ErrorResult(class, args...)}
}
