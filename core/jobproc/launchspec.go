package jobproc

import (
	"encoding/json"

	"lockstep/core/lock"
)

// LaunchSpec is what a job process receives for one opcode through its start pipe, beside the job file: the secrets, which
// must not be in the file, and what only the daemon can derive from the configuration and the catalogue. An empty
// LaunchSpec is JSON's null.
type LaunchSpec struct {
	Secrets       json.RawMessage    `json:"secrets,omitempty"`   // an object: the parameters that are missing in the job file
	RequiredLocks lock.RequiredLocks `json:"needs,omitzero"`      // held while the opcode executes
	Command       json.RawMessage    `json:"command,omitempty"`   // of a catalogue opcode, as parameters of OP_RUN_COMMAND
	FailureResult json.RawMessage    `json:"refused,omitempty"`   // the opcode cannot run, and this is its result
	LogLimit      int                `json:"log_limit,omitempty"` // bound of the opcode's log in bytes; 0: LogLimit
}
