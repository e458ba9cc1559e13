package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lockstep/core/job"
)

// triesKey holds the ended tries of the job's opcodes, except for the last try of each: a list of Try.
const triesKey = "tries"

// dueKey holds when the job may start: microseconds since 1970. It has no meaning while a process acts on the job.
const dueKey = "due"

// Try is a try of an opcode that has failed and was not the last one (package retry).
type Try struct {
	// Start is the number of the start of the job whose process has made the try. It tells tries apart.
	Start   int64           `json:"start"`
	Op      int             `json:"op"`     // index of the opcode
	Result  json.RawMessage `json:"result"` // of the opcode, as if the try had been the last one
	BeganUs int64           `json:"began"`  // microseconds since 1970: when the command began, or else when the process took the opcode up
	EndedUs int64           `json:"ended"`
	// LogTo is the highest serial of the job's log at the end of the try. The log of the try begins after that of the try before.
	LogTo int64 `json:"log_to"`
}

// EndedTry is the try that has ended of a job's first unfinished opcode (job.TryEnded), made by the given start.
func EndedTry(j *job.Job, start int64) Try {
	op := &j.Ops[j.FirstUnfinished()]
	began := op.Exec
	if began.IsZero() {
		began = op.Start
	}
	return Try{Start: start, Op: j.FirstUnfinished(), Result: op.Result, BeganUs: began.Micros(), EndedUs: op.End.Micros(), LogTo: j.LastSerial()}
}

// Tries are the ended tries of all opcodes in their order, except for the last try of each opcode.
func (r Record) Tries() []Try {
	tries, _ := member[[]Try](r, triesKey)
	return tries
}

// TriesOf is the number of ended tries of an opcode, without its last one.
func (r Record) TriesOf(op int) int {
	count := 0
	for _, t := range r.Tries() {
		if t.Op == op {
			count++
		}
	}
	return count
}

// WithTry adds a try. One that is known is not added again.
func (r Record) WithTry(t Try) Record {
	tries := r.Tries()
	if slices.ContainsFunc(tries, func(known Try) bool { return known.Start == t.Start }) {
		return r
	}
	return r.with(triesKey, append(tries, t))
}

// WithDue says when the job may start.
func (r Record) WithDue(due time.Time) Record { return r.with(dueKey, due.UnixMicro()) }

// DueUs is when the job may start, in microseconds since 1970; 0: at once.
func (r Record) DueUs() int64 {
	due, _ := member[int64](r, dueKey)
	return max(due, 0)
}

// triesWords follows the end of an opcode that was tried more than once: " (6 tries)".
func (r Record) triesWords(op int) string {
	if ended := r.TriesOf(op); ended > 0 {
		return fmt.Sprintf(" (%d tries)", ended+1)
	}
	return ""
}

// Words describes how the try has ended: "exit 75".
func (t Try) Words() string { return failureWords(t.Result, "") }
