package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/core/job"
	"lockstep/core/wire"
)

// followTimeout is how long the daemon may keep one WaitForJobChange, in seconds; it
// takes at most 89 (queue.md 1.6).
const followTimeout = 60

// logEntry is `[serial, [s, us], type, payload]` (queue.md 3.5).
type logEntry struct {
	Serial  int64
	Time    stamp
	Type    string
	Payload json.RawMessage
}

func (e *logEntry) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("log entry: %w", err)
	}
	if len(parts) != 4 {
		return fmt.Errorf("log entry of %d parts", len(parts))
	}
	e.Payload = parts[3]
	return scan(parts[:3], &e.Serial, &e.Time, &e.Type)
}

// text is the entry as a line: a message, a piece of output without its end, anything
// else as JSON behind its type.
func (e logEntry) text() string {
	if _, piece, ok := job.Output(e.Type, e.Payload); ok {
		return strings.TrimRight(string(piece), "\r\n")
	}
	var message string
	switch {
	case e.Type == job.LogMissing:
		return missingText(e.Payload)
	case e.Type == job.LogMessage && json.Unmarshal(e.Payload, &message) == nil:
		return message
	}
	var compact bytes.Buffer
	if json.Compact(&compact, e.Payload) != nil {
		return e.Type
	}
	return e.Type + ": " + compact.String()
}

func (e logEntry) event(job int64) event {
	return event{Event: "log", Job: job, Serial: e.Serial, Time: &e.Time, Type: e.Type, Payload: e.Payload}
}

// change is what one answer tells of a job: how it stands, and the log entries that were
// not seen before.
type change struct {
	status   string
	opStatus []string
	entries  []logEntry
	final    bool // nothing comes after this
}

// follower sees a job through to its end (queue.md 1.6). Log entries come once each and
// in order, also when the daemon was restarted meanwhile.
type follower struct {
	session *session
	id      int64

	known  json.RawMessage // field values of the last answer, as they were sent
	serial *int64          // of the last log entry seen
}

func followFields() []string { return []string{"status", "opstatus"} }

// next waits for the next change. It may return one in which nothing has changed, when
// the daemon had nothing to tell for followTimeout.
func (f *follower) next(ctx context.Context) (change, error) {
	var answer json.RawMessage
	err := f.session.ask(ctx, "WaitForJobChange",
		[]any{f.id, followFields(), f.known, f.serial, followTimeout}, &answer)
	var failed *wire.Error
	if errors.As(err, &failed) && failed.Class == classJobLost {
		return f.archived(ctx)
	}
	if err != nil {
		return change{}, err
	}
	var marker string
	if json.Unmarshal(answer, &marker) == nil && marker == "nochange" {
		return f.understand(f.known, nil)
	}
	var pair []json.RawMessage
	if err := json.Unmarshal(answer, &pair); err != nil || len(pair) != 2 {
		return change{}, fmt.Errorf("the daemon answered WaitForJobChange with %s", answer)
	}
	var entries []logEntry
	if err := json.Unmarshal(pair[1], &entries); err != nil {
		return change{}, err
	}
	return f.understand(pair[0], entries)
}

// understand makes a change of an answer and remembers it for the next question.
func (f *follower) understand(values json.RawMessage, entries []logEntry) (change, error) {
	var row []json.RawMessage
	if err := json.Unmarshal(values, &row); err != nil || len(row) != len(followFields()) {
		return change{}, fmt.Errorf("the daemon sent the job's fields as %s", values)
	}
	result := change{entries: f.unseen(entries)}
	if err := scan(row, &result.status, &result.opStatus); err != nil {
		return change{}, err
	}
	if result.status == "" {
		return change{}, errUnknownJob(f.id)
	}
	f.known = values
	// A job can log up to its very end: only a final status with nothing new behind
	// it is the end. Asked about a final job, the daemon answers at once.
	result.final = final(result.status) && len(result.entries) == 0
	return result, nil
}

func (f *follower) unseen(entries []logEntry) []logEntry {
	fresh := slices.DeleteFunc(entries, func(e logEntry) bool {
		return f.serial != nil && e.Serial <= *f.serial
	})
	if len(fresh) > 0 {
		last := fresh[len(fresh)-1].Serial
		f.serial = &last
	}
	return fresh
}

// archived tells the rest of a job that was archived while it was followed, or before:
// WaitForJobChange does not find it there, QueryJobs does.
func (f *follower) archived(ctx context.Context) (change, error) {
	rows, err := queryJobs(ctx, f.session, []int64{f.id}, "status", "opstatus", "oplog")
	if err != nil {
		return change{}, err
	}
	result := change{}
	var logs [][]logEntry
	if err := scan(rows[0], &result.status, &result.opStatus, &logs); err != nil {
		return change{}, err
	}
	if result.status == "" {
		return change{}, errUnknownJob(f.id)
	}
	if !final(result.status) {
		return change{}, fmt.Errorf("the daemon cannot tell how job %d goes on", f.id)
	}
	result.entries = f.unseen(slices.Concat(logs...))
	result.final = true
	return result, nil
}

// follow shows every change until the job is final, and returns its last status.
func (f *follower) follow(ctx context.Context, show func(change)) (string, error) {
	for {
		next, err := f.next(ctx)
		if err != nil {
			return "", err
		}
		show(next)
		if next.final {
			return next.status, nil
		}
	}
}

// ending asks how the job, which is final, has ended.
func (f *follower) ending(ctx context.Context) (ending, error) {
	rows, err := queryJobs(ctx, f.session, []int64{f.id}, "status", "opstatus", "opresult")
	if err != nil {
		return ending{}, err
	}
	var status string
	var opStatus []string
	var opResult []json.RawMessage
	if err := scan(rows[0], &status, &opStatus, &opResult); err != nil {
		return ending{}, err
	}
	if status == "" {
		return ending{}, errUnknownJob(f.id)
	}
	return endingOf(status, opStatus, opResult), nil
}
