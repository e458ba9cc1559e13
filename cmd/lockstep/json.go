package main

import (
	"bytes"
	"encoding/json"
	"io"

	"lockstep/core/job"
)

// decodeAny decodes JSON for showing it again: numbers keep the form they were sent in.
func decodeAny(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// encodeJSON is json.Marshal without escapes for HTML.
func encodeJSON(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buffer.Bytes(), "\n"), nil
}

// printJSON writes one indented JSON document.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// event is one line of the JSON output of run, submit, watch and log; each command's
// help lists the ones it prints. Keys that do not apply are left out.
type event struct {
	Event string `json:"event"`
	Job   int64  `json:"job,omitempty"`

	Index *int   `json:"index,omitempty"` // of the job in a submission, from 0
	Name  string `json:"name,omitempty"`  // that the submission gives it

	Status       string   `json:"status,omitempty"`
	OpcodeStatus []string `json:"opcode_status,omitempty"`

	Serial  int64           `json:"serial,omitempty"`
	Time    *stamp          `json:"time,omitempty"`
	Type    string          `json:"type,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`

	// Missing is what a reader of the log was not given: before the entry that has
	// this serial, or in all.
	Missing *job.Written `json:"missing,omitempty"`

	ExitCode *int   `json:"exit_code,omitempty"`
	Error    string `json:"error,omitempty"`
}

// printEvent writes one event as a line of its own.
func printEvent(w io.Writer, e event) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(e)
}
