// Package follow follows one job to its end. Follower returns every change of the job and each log
// entry once, also over restarts of the daemon. JobOutput writes the output of the job's
// commands, EventView prints changes as lines of JSON, Ending describes the end of the job. The
// package has no command.
package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
	"lockstep/core/outflow/delivery"
	"lockstep/core/wire"
	"lockstep/core/words"
)

// PollTimeout is the timeout of one WaitForJobChange, in seconds; the daemon accepts at most 89
// (queue.md 1.6).
const PollTimeout = 60

// LogEntry is `[serial, [s, us], type, payload]` (queue.md 3.5).
type LogEntry struct {
	Serial  int64
	Time    client.Timestamp
	Type    string
	Payload json.RawMessage
}

func (e *LogEntry) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("decode a log entry: %w", err)
	}
	if len(parts) != 4 {
		return fmt.Errorf("a log entry has %d parts", len(parts))
	}
	e.Payload = parts[3]
	return client.Scan(parts[:3], &e.Serial, &e.Time, &e.Type)
}

// delivered is the entry for a delivery.Delivery.
func (e LogEntry) delivered() delivery.Entry {
	d := delivery.Entry{Serial: e.Serial}
	d.Type, d.Payload = job.FromMessage(e.Type, e.Payload)
	return d
}

func delivered(entries []LogEntry) iter.Seq[delivery.Entry] {
	return func(yield func(delivery.Entry) bool) {
		for _, e := range entries {
			if !yield(e.delivered()) {
				return
			}
		}
	}
}

// Text is the entry as a line: a message, a piece of output without its newline, or the type and
// the payload as JSON.
func (e LogEntry) Text() string {
	if _, piece, ok := job.DecodeOutput(e.Type, e.Payload); ok {
		return strings.TrimRight(string(piece), "\r\n")
	}
	var message string
	var ended job.EndedTry
	switch {
	case e.Type == job.LogTry && json.Unmarshal(e.Payload, &ended) == nil:
		next := job.Timestamp{Sec: ended.Due[0], Usec: ended.Due[1]}.Time().Sub(e.Time.Time).Round(time.Second)
		return ended.String() + "; the next one begins in " + words.FormatDuration(max(next, time.Second))
	case e.Type == job.LogMissing:
		return missingText(e.Payload)
	case e.Type == job.LogOpen:
		return openText(e.Payload)
	case e.Type == job.LogCut:
		return job.CutText
	case (e.Type == job.LogMessage || e.Type == job.LogNote) && json.Unmarshal(e.Payload, &message) == nil:
		return message
	}
	var compact bytes.Buffer
	if json.Compact(&compact, e.Payload) != nil {
		return e.Type
	}
	return e.Type + ": " + compact.String()
}

func (e LogEntry) event(job int64) Event {
	return Event{Event: "log", Job: job, Serial: e.Serial, Time: &e.Time, Type: e.Type, Payload: e.Payload}
}

// Change is the content of one answer about a job: its statuses, and the new log entries.
type Change struct {
	Status   string
	OpStatus []string
	Entries  []LogEntry
	Final    bool // no change follows
}

// Follower waits for the changes of one job until its end (queue.md 1.6). It returns each log entry once and in order, also over restarts
// of the daemon.
type Follower struct {
	Session *client.Session
	ID      int64

	known  json.RawMessage // field values of the last answer, as received
	serial *int64          // serial of the last log entry; nil: none
}

func followFields() []string { return []string{"status", "opstatus"} }

// Next waits for the next change of the job. After PollTimeout without change it returns the unchanged state. For an archived job it
// returns the rest.
func (f *Follower) Next(ctx context.Context) (Change, error) {
	var answer json.RawMessage
	err := f.Session.Query(ctx, "WaitForJobChange",
		[]any{f.ID, followFields(), f.known, f.serial, PollTimeout}, &answer)
	var failed *wire.Error
	if errors.As(err, &failed) && failed.Class == client.ClassJobLost {
		return f.archived(ctx)
	}
	if err != nil {
		return Change{}, err
	}
	var marker string
	if json.Unmarshal(answer, &marker) == nil && marker == "nochange" {
		return f.understand(f.known, nil)
	}
	var pair []json.RawMessage
	if err := json.Unmarshal(answer, &pair); err != nil || len(pair) != 2 {
		return Change{}, fmt.Errorf("the daemon answered WaitForJobChange with %s", answer)
	}
	var entries []LogEntry
	if err := json.Unmarshal(pair[1], &entries); err != nil {
		return Change{}, err
	}
	return f.understand(pair[0], entries)
}

// understand converts an answer to a change and keeps the values for the next call. The change is Final when nothing can follow.
func (f *Follower) understand(values json.RawMessage, entries []LogEntry) (Change, error) {
	var row []json.RawMessage
	if err := json.Unmarshal(values, &row); err != nil || len(row) != len(followFields()) {
		return Change{}, fmt.Errorf("the daemon sent the job's fields as %s", values)
	}
	result := Change{Entries: f.unseen(entries)}
	if err := client.Scan(row, &result.Status, &result.OpStatus); err != nil {
		return Change{}, err
	}
	if result.Status == "" {
		return Change{}, client.ErrUnknownJob(f.ID)
	}
	f.known = values
	// A job may log until its end, so the follower asks once more after a final status: an
	// answer without new log entries is the end. For a final job the daemon answers at once.
	result.Final = client.Final(result.Status) && len(result.Entries) == 0
	return result, nil
}

func (f *Follower) unseen(entries []LogEntry) []LogEntry {
	fresh := slices.DeleteFunc(entries, func(e LogEntry) bool {
		return f.serial != nil && e.Serial <= *f.serial
	})
	if len(fresh) > 0 {
		last := fresh[len(fresh)-1].Serial
		f.serial = &last
	}
	return fresh
}

// archived returns the rest of an archived job: WaitForJobChange does not find archived jobs,
// QueryJobs does.
func (f *Follower) archived(ctx context.Context) (Change, error) {
	rows, err := client.QueryJobs(ctx, f.Session, []int64{f.ID}, "status", "opstatus", "oplog")
	if err != nil {
		return Change{}, err
	}
	result := Change{}
	var logs [][]LogEntry
	if err := client.Scan(rows[0], &result.Status, &result.OpStatus, &logs); err != nil {
		return Change{}, err
	}
	if result.Status == "" {
		return Change{}, client.ErrUnknownJob(f.ID)
	}
	if !client.Final(result.Status) {
		return Change{}, fmt.Errorf("the daemon does not find job %d, which has not ended", f.ID)
	}
	result.Entries = f.unseen(slices.Concat(logs...))
	result.Final = true
	return result, nil
}

// Log queries the whole log of the job.
func (f *Follower) Log(ctx context.Context) ([]LogEntry, error) {
	rows, err := client.QueryJobs(ctx, f.Session, []int64{f.ID}, "oplog")
	if err != nil {
		return nil, err
	}
	var logs [][]LogEntry
	if err := client.Scan(rows[0], &logs); err != nil {
		return nil, err
	}
	return slices.Concat(logs...), nil
}

// Ending queries the end of the job, which must be final.
func (f *Follower) Ending(ctx context.Context) (Ending, error) {
	return EndingOf(ctx, f.Session, f.ID)
}

// EndingOf queries the present state of job id, as an end if it is final.
func EndingOf(ctx context.Context, daemon client.Querier, id int64) (Ending, error) {
	rows, err := client.QueryJobs(ctx, daemon, []int64{id}, "status", "opstatus", "opresult")
	if err != nil {
		return Ending{}, err
	}
	var status string
	var opStatus []string
	var opResult []json.RawMessage
	if err := client.Scan(rows[0], &status, &opStatus, &opResult); err != nil {
		return Ending{}, err
	}
	if status == "" {
		return Ending{}, client.ErrUnknownJob(id)
	}
	return endingOf(status, opStatus, opResult), nil
}
