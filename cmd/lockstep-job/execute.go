package main

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/actors/core/job"
	"lockstep/actors/core/run"
)

// execution is one opcode being executed.
type execution struct {
	id       job.ID
	livelock string
	input    json.RawMessage
	secrets  json.RawMessage // null, or an object with what was taken out of input
	killed   <-chan struct{} // closed when it must end
	log      func(kind string, payload json.RawMessage)
}

// run executes the opcode to its end.
func (x *execution) run() run.Outcome {
	switch job.OpID(x.input) {
	case "OP_TEST_DELAY":
		return x.testDelay()
	case "OP_RUN_COMMAND":
		return x.runCommand()
	default:
		return failure("OpCodeUnknown", "Unknown opcode")
	}
}

func failure(class string, args ...any) run.Outcome {
	return run.Outcome{Failed: true, Result: job.ErrorResult(class, args...)}
}

// endedOnRequest is the result of an opcode that a client had killed.
const endedOnRequest = "Ended on request"

// delayMax is as long as a delay can be, in seconds: for ever, to people.
const delayMax = 9e9

// testDelay is OP_TEST_DELAY (queue.md 8.4) on this node.
func (x *execution) testDelay() run.Outcome {
	var op struct {
		Duration      float64 `json:"duration"`
		Repeat        int     `json:"repeat"`
		Interruptible bool    `json:"interruptible"`
	}
	if err := json.Unmarshal(x.input, &op); err != nil {
		return failure("OpPrereqError", fmt.Sprintf("Parameters cannot be read: %v", err), "wrong_input")
	}
	switch {
	case op.Duration <= 0:
		return failure("OpPrereqError", "Duration must be greater than zero")
	case op.Interruptible:
		return failure("OpPrereqError", "An interruptible delay is not supported yet", "wrong_input")
	}
	for i := range max(op.Repeat, 1) {
		if op.Repeat > 0 {
			x.log("message", job.Quote(fmt.Sprintf(" - INFO: Test delay iteration %d/%d", i, op.Repeat-1)))
		}
		select {
		case <-time.After(time.Duration(min(op.Duration, delayMax) * float64(time.Second))):
		case <-x.killed:
			return failure("OpExecError", endedOnRequest)
		}
	}
	return run.Outcome{}
}
