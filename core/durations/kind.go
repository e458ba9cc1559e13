package durations

import (
	"encoding/json"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"lockstep/core/job"
)

// KindOf is the kind of an opcode, by its stored input: OP_ID, which is the name of a declared opcode. For a command it is followed by
// the base name of the program and the label that the submitter gave, if there are any, and cut to kindMax bytes. Malformed input has the
// empty kind.
func KindOf(input json.RawMessage) string {
	var op struct {
		OpID string          `json:"OP_ID"`
		Argv json.RawMessage `json:"argv"`
		Kind json.RawMessage `json:"kind"`
	}
	if json.Unmarshal(input, &op) != nil {
		return ""
	}
	words := []string{op.OpID}
	if op.OpID == "OP_RUN_COMMAND" {
		var argv []string
		if json.Unmarshal(op.Argv, &argv) == nil && len(argv) > 0 {
			words = append(words, path.Base(argv[0]))
		}
		var label string
		if len(op.Kind) > 0 && json.Unmarshal(op.Kind, &label) == nil && label != "" {
			words = append(words, label)
		}
	}
	kind := strings.Join(words, " ")
	for len(kind) > kindMax {
		_, size := utf8.DecodeLastRuneInString(kind[:kindMax+1])
		kind = kind[:max(kindMax+1-size, 0)]
	}
	return kind
}

// RecordJob adds the durations of the opcodes of a job that has ended. An opcode without both times has not executed.
func (t *Table) RecordJob(j *job.Job) {
	for i := range j.Ops {
		op := &j.Ops[i]
		if op.Exec == (job.Timestamp{}) || op.End == (job.Timestamp{}) || !op.Status.Final() {
			continue
		}
		took := time.Duration(op.End.Sec-op.Exec.Sec)*time.Second + time.Duration(op.End.Usec-op.Exec.Usec)*time.Microsecond
		t.Record(KindOf(op.Input), took, op.Status == job.Success)
	}
}
