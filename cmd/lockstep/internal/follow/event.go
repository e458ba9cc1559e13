package follow

import (
	"encoding/json"
	"io"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
)

// Event is one line of the JSON output of run, submit, watch and log; the help of each command
// lists its events. Keys that do not apply are omitted.
type Event struct {
	Event string `json:"event"`
	Job   int64  `json:"job,omitempty"`

	Index *int   `json:"index,omitempty"` // index of the job in the submission, from 0
	Name  string `json:"name,omitempty"`  // name of the job in the submission

	Line   int `json:"line,omitempty"` // of a mistake in the file of a submission, from 1; 0: unknown
	Column int `json:"column,omitempty"`

	Daemon client.Whose `json:"daemon,omitempty"` // that has the job; "": one that was named by its socket

	At string `json:"at,omitempty"` // of a submitted job: it starts no earlier, in RFC 3339

	Status       string   `json:"status,omitempty"`
	OpcodeStatus []string `json:"opcode_status,omitempty"`

	Serial  int64             `json:"serial,omitempty"`
	Time    *client.Timestamp `json:"time,omitempty"`
	Type    string            `json:"type,omitempty"`
	Payload json.RawMessage   `json:"payload,omitempty"`

	// Missing is the output that this reader of the log missed: before the entry with this
	// serial, or, at the end, in total.
	Missing *job.Output `json:"missing,omitempty"`

	// Incomplete, at the end: output is missing or may be missing.
	Incomplete bool `json:"incomplete,omitempty"`

	ExitCode *int   `json:"exit_code,omitempty"`
	Error    string `json:"error,omitempty"`
}

// PrintEvent writes one event as one line of JSON.
func PrintEvent(w io.Writer, e Event) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(e)
}
