package main

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/actors/core/job"
	"lockstep/actors/core/run"
)

// say adds an entry to the opcode's log.
type say func(kind string, payload json.RawMessage)

// execute runs one opcode to its end. secrets is null or an object with what
// was taken out of input.
func execute(id job.ID, livelock string, input, secrets json.RawMessage, log say) run.Outcome {
	switch job.OpID(input) {
	case "OP_TEST_DELAY":
		return testDelay(input, log)
	case "OP_RUN_COMMAND":
		return runCommand(id, livelock, input, secrets, log)
	default:
		return failure("OpCodeUnknown", "Unknown opcode")
	}
}

func failure(class string, args ...any) run.Outcome {
	return run.Outcome{Failed: true, Result: job.ErrorResult(class, args...)}
}

// testDelay is OP_TEST_DELAY (queue.md 8.4) on this node.
func testDelay(input json.RawMessage, log say) run.Outcome {
	var op struct {
		Duration      float64 `json:"duration"`
		Repeat        int     `json:"repeat"`
		Interruptible bool    `json:"interruptible"`
	}
	if err := json.Unmarshal(input, &op); err != nil {
		return failure("OpPrereqError", fmt.Sprintf("Parameters cannot be read: %v", err), "wrong_input")
	}
	switch {
	case op.Duration <= 0:
		return failure("OpPrereqError", "Duration must be greater than zero")
	case op.Interruptible:
		return failure("OpPrereqError", "An interruptible delay is not supported yet", "wrong_input")
	}
	delay := time.Duration(op.Duration * float64(time.Second))
	if op.Repeat == 0 {
		time.Sleep(delay)
	}
	for i := range op.Repeat {
		log("message", job.Quote(fmt.Sprintf(" - INFO: Test delay iteration %d/%d", i, op.Repeat-1)))
		time.Sleep(delay)
	}
	return run.Outcome{}
}
