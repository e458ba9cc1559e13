package record

import (
	"encoding/json"
	"fmt"
	"slices"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/retry"
)

// triesKey holds the ended tries of the job's opcodes, except for the last try of each: a list of Try.
const triesKey = "tries"

// dueKey holds when the next try may start: microseconds since 1970. It has no meaning while a process acts on the job.
const dueKey = "due"

// atKey holds before which time the job was not to start, by its submission or a later order: microseconds since 1970.
const atKey = "at"

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

// EndTry takes a try that has ended (job.TryEnded) into the record of its job, with the time of the next one. The job waits for that from
// then on, and names no process; its log says how the try has ended. ganetiLog: entries of the log have types that Ganeti's daemon reads.
func EndTry(r Record, j *job.Job, ganetiLog bool, now job.Timestamp) Record {
	start := paths.StartOfLivelock(j.Livelock)
	index := j.FirstUnfinished()
	op, policy := &j.Ops[index], retry.Of(j.Ops[index].Input)
	began := op.Exec
	if began.IsZero() {
		began = op.Start
	}
	t := Try{Start: start, Op: index, Result: op.Result, BeganUs: began.Micros(), EndedUs: op.End.Micros(), LogTo: j.LastSerial() + 1}
	ended := op.End.Time()
	r = r.withTry(t)
	number := r.TriesOf(index)
	due := job.TimestampOf(ended.Add(policy.Pause(int64(j.ID), number)))
	kind, payload := job.LogTry, t.note(number, policy.Tries(), due)
	if ganetiLog {
		kind, payload = job.AsMessage(kind, payload)
	}
	j.AppendLog(index, now, kind, payload)
	op.AwaitTry()
	j.Livelock, j.ProcessID = paths.UndoneLivelock(start), 0
	return r.with(dueKey, due.Micros())
}

// note is the payload of the log entry about the try.
func (t Try) note(number, most int, due job.Timestamp) json.RawMessage {
	payload, err := json.Marshal(job.EndedTry{Try: number, Most: most, End: t.Words(), Result: t.Result, Due: [2]int64{due.Sec, due.Usec}})
	if err != nil {
		panic(fmt.Errorf("encode the end of a try: %w", err)) // the result was decoded
	}
	return payload
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

// CurrentTry is the number, from 1, of the try of an opcode that the process makes which the job's file names; without a process, of the
// next try. If the daemon dies between the writes of the record and of the file, the record has the try of that process already.
func (r Record) CurrentTry(j *job.Job, op int) int {
	number := r.TriesOf(op) + 1
	if !paths.IsJobLivelock(j.Livelock) {
		return number
	}
	start := paths.StartOfLivelock(j.Livelock)
	if slices.ContainsFunc(r.Tries(), func(t Try) bool { return t.Op == op && t.Start == start }) {
		return number - 1
	}
	return number
}

// withTry adds a try. One that is known is not added again.
func (r Record) withTry(t Try) Record {
	tries := r.Tries()
	if slices.ContainsFunc(tries, func(known Try) bool { return known.Start == t.Start }) {
		return r
	}
	return r.with(triesKey, append(tries, t))
}

// DueUs is when the job, or its next try, may start, in microseconds since 1970; 0: at once.
func (r Record) DueUs() int64 {
	due, tried := member[int64](r, dueKey)
	if !tried {
		return r.AtUs()
	}
	return max(due, 0)
}

// AtUs is the time before which the job was not to start, in microseconds since 1970; 0: it could start at once.
func (r Record) AtUs() int64 {
	at, _ := member[int64](r, atKey)
	return max(at, 0)
}

// WithDue sets when the job may start; after a try, when the next one may; 0: at once.
func (r Record) WithDue(us int64) Record {
	if _, tried := member[int64](r, dueKey); tried {
		return r.with(dueKey, us)
	}
	return r.with(atKey, us)
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
