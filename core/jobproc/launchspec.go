package jobproc

import (
	"cmp"
	"encoding/json"
	"time"

	"lockstep/core/lock"
	"lockstep/core/retry"
)

// OutputWait is how long a command waits for a reader who follows it and takes nothing, without the setting `output_wait`.
const OutputWait = time.Hour

// LaunchSpec is what a job process receives for one opcode through its start pipe, beside the job file: the secrets, which
// must not be in the file, and what only the daemon can derive from the configuration and the catalogue. An empty
// LaunchSpec is JSON's null.
type LaunchSpec struct {
	Secrets       json.RawMessage    `json:"secrets,omitempty"` // an object: the parameters that are missing in the job file
	RequiredLocks lock.RequiredLocks `json:"needs,omitzero"`    // held while the opcode executes
	Command       json.RawMessage    `json:"command,omitempty"` // of a catalogue opcode, as parameters of OP_RUN_COMMAND
	FailureResult json.RawMessage    `json:"refused,omitempty"` // the opcode cannot run, and this is its result
	// RunAs is the user as whom the command of the opcode runs; nil: the daemon's. Account is the account of that user. The queue sets
	// RunAs, and the jobs actor Account.
	RunAs   *User    `json:"run_as,omitempty"`
	Account *Account `json:"account,omitempty"`
	// Followed: the client that has submitted the job reads all of its output, and commands wait for it. It is in the spec of the first
	// opcode.
	Followed bool `json:"followed,omitempty"`
	// OutputWait is the setting output_wait, in seconds; 0: OutputWait. It is in the spec of the first opcode.
	OutputWait float64 `json:"output_wait,omitempty"`
	// KeepOutput bounds what the process keeps of the output of the job in files, in bytes; 0: nothing. It is in the spec of the first opcode.
	KeepOutput int64  `json:"keep_output,omitempty"`
	Name       string `json:"name,omitempty"`      // of the job; "": none. It is in the spec of the first opcode.
	LogLimit   int    `json:"log_limit,omitempty"` // bound of the opcode's log in bytes; 0: LogLimit
	// Retry is the policy of an opcode that may be tried again. Try is the number of this try, from 1; 0 stands for 1.
	Retry *retry.Policy `json:"retry,omitempty"`
	Try   int           `json:"try,omitempty"`
}

// CurrentTry is the number of this try of the opcode, from 1.
func (s *LaunchSpec) CurrentTry() int { return max(s.Try, 1) }

// logLimit bounds the log of one try of the opcode, in bytes: all tries together have the bound of the opcode.
func (s *LaunchSpec) logLimit() int {
	limit := cmp.Or(s.LogLimit, LogLimit)
	if s.Retry != nil {
		limit /= s.Retry.Tries()
	}
	return limit
}

// triesAgain reports whether another try follows this one, which has failed with the result.
func (s *LaunchSpec) triesAgain(result json.RawMessage) bool {
	return s.Retry != nil && s.Retry.Again(s.CurrentTry(), result)
}

// triesAgainIfLost reports whether another try follows this one if its process dies.
func (s *LaunchSpec) triesAgainIfLost() bool {
	return s.Retry != nil && s.Retry.AgainIfLost(s.CurrentTry())
}
