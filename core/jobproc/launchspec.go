package jobproc

import (
	"encoding/json"

	"lockstep/core/lock"
)

// LaunchSpec is what the daemon passes to the process of a job for one opcode, beside the job's file: secrets, which
// must not be in the file, and what only the daemon can derive from the configuration and the catalogue. It is JSON,
// and null where it is empty.
type LaunchSpec struct {
	Secrets       json.RawMessage    `json:"secrets,omitempty"` // an object
	RequiredLocks lock.RequiredLocks `json:"needs,omitzero"`
	Command       json.RawMessage    `json:"command,omitempty"` // what a catalogue opcode runs, as parameters of OP_RUN_COMMAND
	FailureResult json.RawMessage    `json:"refused,omitempty"` // the opcode's result: it cannot run
}
