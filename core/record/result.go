package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/limits"
	"lockstep/core/rawjson"
)

// canceledByKey holds the user and process whose cancel the daemon accepted last: "uid=0(root), pid=4711".
const canceledByKey = "canceled_by"

// causeKey holds the job because of which the job was not run: {"job": 15, "status": "error"}.
const causeKey = "not_run"

// cause is the job because of whose end a job has not run, as the record has it under causeKey.
type cause struct {
	Job    int64  `json:"job"`
	Status string `json:"status"` // with which that job has ended
}

// CanceledBy is the user and process that sent the last cancel, as a gateway describes them; "" if that is unknown.
func (r Record) CanceledBy() string {
	by, _ := member[string](r, canceledByKey)
	return by
}

// WithCanceledBy returns the record with the author of a cancel.
func (r Record) WithCanceledBy(by string) Record { return r.with(canceledByKey, by) }

// WithCause sets the job because of which the job was not run, and the status with which that job has ended.
func (r Record) WithCause(id int64, status job.Status) Record {
	return r.with(causeKey, cause{id, status.String()})
}

// User is the name of a user in the description of a gateway: alice for "uid=1000(alice), pid=4711", 1000 for
// "uid=1000, pid=4711", deploy for "user=deploy, from=10.0.0.5".
func User(by string) string {
	first, _, _ := strings.Cut(by, ", ")
	if name, is := strings.CutPrefix(first, "user="); is {
		return name
	}
	uid, is := strings.CutPrefix(first, "uid=")
	if !is {
		return first
	}
	if number, name, named := strings.Cut(uid, "("); named {
		if name = strings.TrimSuffix(name, ")"); name == "" {
			return number
		}
		return name
	}
	return uid
}

// resultMax bounds the text of an error in Result, in characters.
const resultMax = 80

// Result describes the end of a job in a few words: "exit 3", "timed out", "killed by root", "not run: job 15 failed",
// or the beginning of the error's text. It is "" for a job that has succeeded or has not ended, and for a canceled job
// of which nothing more is known.
func (r Record) Result(j *job.Job) string {
	if status := j.Status(); status != job.Error && status != job.Canceled {
		return ""
	}
	if c, known := member[cause](r, causeKey); known && !begun(j) {
		return "not run: " + c.String()
	}
	if words := unrunWords(j); words != "" {
		return words
	}
	by := ""
	if author := r.CanceledBy(); author != "" {
		by = " by " + User(author)
	}
	if j.Status() == job.Canceled {
		return canceledWords(j, by)
	}
	for i := range j.Ops {
		if j.Ops[i].Status == job.Error {
			return failureWords(j.Ops[i].Result, by) + r.triesWords(i)
		}
	}
	return ""
}

func (c cause) String() string {
	switch c.Status {
	case job.Error.String():
		return fmt.Sprintf("job %d failed", c.Job)
	case job.Canceled.String():
		return fmt.Sprintf("job %d was canceled", c.Job)
	}
	return fmt.Sprintf("job %d ended with %s", c.Job, c.Status)
}

// unrunWords says which opcodes were not run because of a dependency: "opcodes 2 to 3 not run: job 7 was canceled", without
// numbers if none was run. It is "" for a job that has ended otherwise.
func unrunWords(j *job.Job) string {
	first := slices.IndexFunc(j.Ops, func(op job.Op) bool { return op.Status != job.Success })
	if first < 0 || !j.Ops[first].Exec.IsZero() {
		return ""
	}
	text, prefix := resultText(j.Ops[first].Result), jobproc.DependencyFailed
	if j.Ops[first].Status == job.Canceled {
		prefix = jobproc.CanceledByDependency
	}
	cause, is := strings.CutPrefix(text, prefix)
	switch last := len(j.Ops); {
	case !is:
		return ""
	case first == 0:
		return shortened("not run: " + cause)
	case first+1 == last:
		return shortened(fmt.Sprintf("opcode %d not run: %s", last, cause))
	default:
		return shortened(fmt.Sprintf("opcodes %d to %d not run: %s", first+1, last, cause))
	}
}

// resultText is the text in the result of an opcode that was canceled or has failed: a text, or ["Class", [text, ...]].
func resultText(result json.RawMessage) (text string) {
	var class string
	var args []json.RawMessage
	if json.Unmarshal(result, &text) == nil {
		return text
	}
	if json.Unmarshal(result, &[]any{&class, &args}) == nil && len(args) > 0 {
		_ = json.Unmarshal(args[0], &text) // another value is no text
	}
	return text
}

// begun reports whether an opcode of the job has executed.
func begun(j *job.Job) bool {
	for i := range j.Ops {
		if !j.Ops[i].Exec.IsZero() {
			return true
		}
	}
	return false
}

// RejectSource is the source of the reason trail entry that names the rule which has rejected a job (queue.md 3.6).
const RejectSource = "gnt:daemon:luxid:filter"

// Rejection is the result of a job that a filter rule has rejected. reason is the rule's, "" for none.
func Rejection(rule, reason string) string {
	text := rejectedBy + rule
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// Reject cancels a job that a filter rule rejects and of which no opcode executes. The rule is named in its reason trail and in its
// result.
func Reject(j *job.Job, rule, reason string, now job.Timestamp) {
	text := Rejection(rule, reason)
	j.AppendReason(func(int) string { return RejectSource }, func(int) string { return text }, now)
	j.CancelUnstarted(rawjson.Quote(text), now)
}

// Rejected reports whether a result is that of a job that a filter rule has rejected.
func Rejected(result string) bool { return strings.HasPrefix(result, rejectedBy) }

const rejectedBy = "rejected by filter rule "

// canceledWords describes a canceled job by its filter rule, its dependency or its client; "" if none of these is known. A filter rule
// leaves a reason, and a dependency another result than a client.
func canceledWords(j *job.Job, by string) string {
	if len(j.Ops) == 0 {
		return ""
	}
	var text string
	_ = json.Unmarshal(j.Ops[len(j.Ops)-1].Result, &text) // null for a job that was canceled while queued
	switch {
	case text == "" && bytes.Contains(j.Ops[0].Input, []byte(`"`+RejectSource+`"`)):
		return "rejected by a filter rule" // by an earlier version
	case text != "" && text != jobproc.CanceledByRequest:
		return shortened(text)
	case by != "":
		return "canceled" + by
	}
	return ""
}

// failureWords describes the result of a failed opcode: ["Class", [text, details]], or a text (queue.md 3.4). by follows "killed". "":
// the result has another form.
func failureWords(result json.RawMessage, by string) string {
	var text string
	if json.Unmarshal(result, &text) == nil {
		return shortened(text)
	}
	f, ok := job.ParseFailure(result)
	if !ok {
		return ""
	}
	var signal string
	_ = json.Unmarshal(f.Signal, &signal) // "" for a number
	switch {
	case strings.HasPrefix(f.Text, limits.OutOfMemory):
		return shortened(f.Text)
	case f.Text == jobproc.EndedOnRequest:
		return "killed" + by
	case f.Timeout != nil:
		return "timed out"
	case f.ExitStatus != nil:
		return fmt.Sprintf("exit %d", *f.ExitStatus)
	case len(f.Signal) > 0:
		if signal == "" {
			signal = string(f.Signal)
		}
		return "signal " + signal
	case f.Text == "":
		return shortened(f.Class)
	}
	return shortened(f.Text)
}

func shortened(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if runes := []rune(text); len(runes) > resultMax {
		return string(runes[:resultMax-1]) + "…"
	}
	return text
}
