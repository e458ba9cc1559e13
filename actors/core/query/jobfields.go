// Package query holds the fields of the things a client can ask for, and later
// the expressions that choose among them (queue.md section 2). Pure.
package query

import (
	"encoding/json"
	"strings"

	"lockstep/actors/core/job"
	"lockstep/messages"
)

// JobItem is one job to take values from. Job may be nil when only fields are
// asked for that JobInfo has; Unknown marks a job that was not found.
type JobItem struct {
	ID       job.ID
	Unknown  bool
	Archived bool
	Info     *messages.JobInfo
	Job      *job.Job
}

// JobField is one field of a job (queue.md 2.5).
type JobField struct {
	Name string
	// needsFile: the value is only in the job file, not in JobInfo.
	needsFile bool
	value     func(*JobItem) any
}

// jobFields, in natural-sort order of name.
var jobFields = []JobField{
	{"archived", false, func(i *JobItem) any { return i.Archived }},
	{"end_ts", false, func(i *JobItem) any { return stamp(i.Info.GetEndUs()) }},
	{"id", false, func(i *JobItem) any { return i.ID }},
	{"opend", true, perOp(func(o *job.Op) any { return opStamp(o.End) })},
	{"opexec", true, perOp(func(o *job.Op) any { return opStamp(o.Exec) })},
	{"oplog", true, perOp(func(o *job.Op) any { return LogEntries(o.Log) })},
	{"oppriority", true, perOp(func(o *job.Op) any { return o.Priority })},
	{"opresult", true, perOp(func(o *job.Op) any { return o.Result })},
	{"ops", true, perOp(func(o *job.Op) any { return o.Input })},
	{"opstart", true, perOp(func(o *job.Op) any { return opStamp(o.Start) })},
	{"opstatus", true, perOp(func(o *job.Op) any { return o.Status.String() })},
	{"priority", false, func(i *JobItem) any { return i.Info.GetPriority() }},
	{"received_ts", false, func(i *JobItem) any { return stamp(i.Info.GetReceivedUs()) }},
	{"start_ts", false, func(i *JobItem) any { return stamp(i.Info.GetStartUs()) }},
	{"status", false, func(i *JobItem) any { return job.Status(i.Info.GetStatus()).String() }},
	{"summary", false, func(i *JobItem) any { return i.Info.GetSummary() }},
}

// UnknownFields is the error of a classic query that asks for fields that do
// not exist (queue.md 1.3).
type UnknownFields struct{ Names []string }

func (e *UnknownFields) Error() string {
	return "Unknown output fields selected: " + strings.Join(e.Names, ", ")
}

// JobFields finds fields by name, in the order asked. A field that does not
// exist is nil in the result and named in the error, an *UnknownFields.
func JobFields(names []string) ([]*JobField, error) {
	fields := make([]*JobField, len(names))
	var unknown []string
	for i, name := range names {
		for k := range jobFields {
			if jobFields[k].Name == name {
				fields[i] = &jobFields[k]
			}
		}
		if fields[i] == nil {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return fields, &UnknownFields{unknown}
	}
	return fields, nil
}

// NeedFile reports whether any field is only in the job file.
func NeedFile(fields []*JobField) bool {
	for _, f := range fields {
		if f != nil && f.needsFile {
			return true
		}
	}
	return false
}

// Row is one job's values. A field that does not exist is null, and so is
// everything but the id of a job that was not found.
func Row(fields []*JobField, item *JobItem) []any {
	row := make([]any, len(fields))
	for i, f := range fields {
		switch {
		case f == nil:
		case item.Unknown && f.Name != "id":
		default:
			row[i] = f.value(item)
		}
	}
	return row
}

// LogEntries are log entries as clients see them: [serial, [s, us], type,
// payload] (queue.md 1.6).
func LogEntries(log []job.LogEntry) [][4]any {
	rows := make([][4]any, len(log))
	for i := range log {
		e := &log[i]
		rows[i] = [4]any{e.Serial, [2]int64{e.Time.Sec, e.Time.Usec}, e.Type, e.Payload}
	}
	return rows
}

func perOp(value func(*job.Op) any) func(*JobItem) any {
	return func(i *JobItem) any {
		values := make([]any, len(i.Job.Ops))
		for k := range i.Job.Ops {
			values[k] = value(&i.Job.Ops[k])
		}
		return values
	}
}

func opStamp(t job.Timestamp) any {
	if t.IsZero() {
		return nil
	}
	return [2]int64{t.Sec, t.Usec}
}

func stamp(us int64) any {
	if us == 0 {
		return nil
	}
	return [2]int64{us / 1e6, us % 1e6}
}

// Info is the part of a job that the queue keeps at hand. encoded is the file's
// content, kept for jobs that are not final.
func Info(j *job.Job, summary func(json.RawMessage) string, encoded []byte) *messages.JobInfo {
	info := &messages.JobInfo{
		Id: int64(j.ID), Status: int32(j.Status()), Priority: int32(j.Priority()),
		ReceivedUs: micros(j.Received), StartUs: micros(j.Start), EndUs: micros(j.End),
		Summary: make([]string, len(j.Ops)),
	}
	for i := range j.Ops {
		info.Summary[i] = summary(j.Ops[i].Input)
	}
	if !j.Status().Final() {
		info.Encoded = encoded
	}
	return info
}

func micros(t job.Timestamp) int64 { return t.Sec*1e6 + t.Usec }
