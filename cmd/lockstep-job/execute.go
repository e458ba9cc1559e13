package main

import (
	"encoding/json"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/lock"
)

// execution is one opcode being executed.
type execution struct {
	id       job.ID
	livelock string
	input    json.RawMessage
	command  json.RawMessage // what a catalogue opcode runs, nil for others
	secrets  json.RawMessage // null, or an object with what was taken out of input
	locks    []lock.Item     // that are held for it
	killed   <-chan struct{} // closed when it must end
	lease    *lease
	ask      func(method string, args []any, result any) error
	emit     func([]jobproc.LogEntry)
}

func (x *execution) log(kind string, payload json.RawMessage) {
	x.emit([]jobproc.LogEntry{{Kind: kind, Payload: payload}})
}

// run executes the opcode to its end.
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
		return jobproc.Outcome{} // what there is to distribute has been, by then
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
