package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lockstep/core/answer"
)

// ClassJobLost is the class of the error for a job that does not exist.
const ClassJobLost = "JobLost"

// The statuses of jobs and opcodes as they are on the wire (queue.md 3.3, 4.2).
const (
	StatusQueued    = "queued"
	StatusWaiting   = "waiting"
	StatusCanceling = "canceling"
	StatusRunning   = "running"
	StatusCanceled  = "canceled"
	StatusSuccess   = "success"
	StatusError     = "error"
)

// AllStatuses returns the statuses in the order of a job's life.
func AllStatuses() []string {
	return []string{StatusQueued, StatusWaiting, StatusCanceling, StatusRunning,
		StatusCanceled, StatusSuccess, StatusError}
}

// PendingStatuses are the statuses of jobs that wait (queue.md 4.2).
func PendingStatuses() []string { return []string{StatusQueued, StatusWaiting, StatusCanceling} }

// Final reports whether a job with this status has ended and cannot change.
func Final(status string) bool {
	return status == StatusCanceled || status == StatusSuccess || status == StatusError
}

// Timestamp is a point in time: [seconds, microseconds] on the wire, null before the event. In
// JSON output it is RFC 3339 in UTC.
type Timestamp struct{ time.Time }

func (s *Timestamp) UnmarshalJSON(data []byte) error {
	var read answer.Time
	err := read.UnmarshalJSON(data)
	s.Time = read.Time
	return err
}

func (s Timestamp) MarshalJSON() ([]byte, error) {
	if s.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(s.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// Querier makes queries; Session implements it.
type Querier interface {
	Query(ctx context.Context, method string, args []any, result any) error
}

// QueryJobs returns one row of field values per job, in the order of ids; ids nil means
// all jobs, in the order of their ids. The row of an unknown job has null for all fields but
// the id (queue.md 2.5).
func QueryJobs(ctx context.Context, from Querier, ids []int64, fields ...string) ([][]json.RawMessage, error) {
	var rows [][]json.RawMessage
	if err := from.Query(ctx, "QueryJobs", []any{ids, fields}, &rows); err != nil {
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

// Scan decodes the values of one row into targets; null leaves a target unchanged.
func Scan(row []json.RawMessage, targets ...any) error {
	for i, target := range targets {
		if err := json.Unmarshal(row[i], target); err != nil {
			return fmt.Errorf("decode field %d of a job: %w", i+1, err)
		}
	}
	return nil
}

// ErrUnknownJob is the error for a job that does not exist.
func ErrUnknownJob(id int64) error {
	return fmt.Errorf(`there is no job %d; "lockstep list --all --archived" lists all jobs`, id)
}
