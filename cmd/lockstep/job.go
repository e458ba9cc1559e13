package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The statuses of jobs and opcodes as they are on the wire (queue.md 3.3, 4.2).
const (
	statusQueued    = "queued"
	statusWaiting   = "waiting"
	statusCanceling = "canceling"
	statusRunning   = "running"
	statusCanceled  = "canceled"
	statusSuccess   = "success"
	statusError     = "error"
)

// allStatuses is in the order of a job's life.
func allStatuses() []string {
	return []string{statusQueued, statusWaiting, statusCanceling, statusRunning,
		statusCanceled, statusSuccess, statusError}
}

// pendingStatuses are those of jobs that wait for something (queue.md 4.2).
func pendingStatuses() []string { return []string{statusQueued, statusWaiting, statusCanceling} }

// final tells whether a job with this status can change no more.
func final(status string) bool {
	return status == statusCanceled || status == statusSuccess || status == statusError
}

// The names of the three priorities that a submission may have (queue.md 8.1).
const (
	priorityHigh   = -10
	priorityNormal = 0
	priorityLow    = 10
)

func priorityName(priority int) string {
	switch priority {
	case priorityHigh:
		return "high"
	case priorityNormal:
		return "normal"
	case priorityLow:
		return "low"
	}
	return strconv.Itoa(priority)
}

// stamp is a point in time, [seconds, microseconds] on the wire and null if there was
// none yet. As JSON of this program it is RFC 3339 in UTC.
type stamp struct{ time.Time }

func (s *stamp) UnmarshalJSON(data []byte) error {
	var parts []int64
	if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("timestamp %s: %w", data, err)
	}
	switch len(parts) {
	case 0:
		s.Time = time.Time{}
	case 2:
		s.Time = time.Unix(parts[0], parts[1]*int64(time.Microsecond))
	default:
		return fmt.Errorf("timestamp %s has %d parts", data, len(parts))
	}
	return nil
}

func (s stamp) MarshalJSON() ([]byte, error) {
	if s.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(s.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// asker is the part of a session that queries need.
type asker interface {
	ask(ctx context.Context, method string, args []any, result any) error
}

// queryJobs returns one row of field values per job, in the order of ids; ids nil means
// all jobs, in the order of their ids. An unknown job has only its id, the rest is null
// (queue.md 2.5).
func queryJobs(ctx context.Context, from asker, ids []int64, fields ...string) ([][]json.RawMessage, error) {
	var rows [][]json.RawMessage
	if err := from.ask(ctx, "QueryJobs", []any{ids, fields}, &rows); err != nil {
		return nil, err
	}
	if ids != nil && len(rows) != len(ids) {
		return nil, fmt.Errorf("asked for %d jobs, the daemon sent %d", len(ids), len(rows))
	}
	for _, row := range rows {
		if len(row) != len(fields) {
			return nil, fmt.Errorf("asked for %d fields, the daemon sent %d", len(fields), len(row))
		}
	}
	return rows, nil
}

// scan decodes the values of one row; null leaves what a target points to as it is.
func scan(row []json.RawMessage, targets ...any) error {
	for i, target := range targets {
		if err := json.Unmarshal(row[i], target); err != nil {
			return fmt.Errorf("field %d of a job: %w", i+1, err)
		}
	}
	return nil
}

func errUnknownJob(id int64) error {
	return fmt.Errorf(`there is no job %d; "lockstep list --all" shows which there are`, id)
}

// parseIDs reads job ids from the command line.
func parseIDs(args []string) ([]int64, error) {
	ids := make([]int64, 0, len(args))
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id < 0 {
			return nil, usagef("a job id is a number, not %q", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// summarize joins the summaries of a job's opcodes into one line.
func summarize(summaries []string) string {
	const shown = 3
	if len(summaries) <= shown {
		return visible(strings.Join(summaries, ", "))
	}
	return fmt.Sprintf("%s and %d more", visible(strings.Join(summaries[:shown], ", ")), len(summaries)-shown)
}

// reasonTrail returns the trail that a submission appends to the reason of each of its
// opcodes (queue.md 3.6): the user's text, if any, then what submitted it.
func reasonTrail(text, subcommand string, now time.Time) [][]any {
	var trail [][]any
	if text != "" {
		trail = append(trail, []any{"gnt:user", text, now.UnixNano()})
	}
	return append(trail, []any{"gnt:client:lockstep", subcommand, now.UnixNano()})
}
