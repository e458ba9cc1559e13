package follow

import (
	"encoding/json"
	"io"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
)

// Event is one line of the JSON output of run, submit, watch and log; each command's
// help lists the ones it prints. Keys that do not apply are left out.
type Event struct {
	Event string `json:"event"`
	Job   int64  `json:"job,omitempty"`

	Index *int   `json:"index,omitempty"` // of the job in a submission, from 0
	Name  string `json:"name,omitempty"`  // that the submission gives it

	Status       string   `json:"status,omitempty"`
	OpcodeStatus []string `json:"opcode_status,omitempty"`

	Serial  int64             `json:"serial,omitempty"`
	Time    *client.Timestamp `json:"time,omitempty"`
	Type    string            `json:"type,omitempty"`
	Payload json.RawMessage   `json:"payload,omitempty"`

	// Missing is what a reader of the log was not given: before the entry that has
	// this serial, or in all.
	Missing *job.Output `json:"missing,omitempty"`

	ExitCode *int   `json:"exit_code,omitempty"`
	Error    string `json:"error,omitempty"`
}

// PrintEvent writes one event as a line of its own.
func PrintEvent(w io.Writer, e Event) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(e)
}
