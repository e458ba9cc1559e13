// Package query decides what a client's query returns (queue.md 2): the fields of jobs, locks, filter rules and objects
// of the configuration, and the expressions that select items. It receives the names of fields, a filter and the items.
// It returns which items match, their rows as JSON, which part of an item must be loaded first, or what is wrong with
// the query. It is pure.
package query

import (
	"encoding/json"
	"slices"
	"strings"
	"unique"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/rawjson"
	"lockstep/core/record"
	"lockstep/core/retry"
	"lockstep/messages"
)

// JobItem is one job to take values from. Info and Job may be nil when only fields are asked for that do not need them;
// Unknown marks a job that was not found or cannot be read, of which only the id is known.
type JobItem struct {
	ID       job.ID
	Unknown  bool
	Archived bool
	Info     *messages.JobInfo
	Job      *job.Job
}

// JobField is one field of a job.
type JobField = Field[JobItem]

// Jobs are the fields of jobs (queue.md 2.5).
var Jobs = newTable("id", []JobField{
	field("id", "ID", Number, "Number of the job", func(i *JobItem) Value { return normal(i.ID) }),
	jobField("archived", "Archived", Bool, "Whether the job lies in the archive", LevelListing, func(i *JobItem) any { return i.Archived }),
	jobField("status", "Status", Text, "State of the job", LevelInfo, func(i *JobItem) any { return ClientStatus(i.Info).String() }),
	jobField("priority", "Priority", Number, "Priority of what is still to run, from 19 to -20, which goes first", LevelInfo,
		func(i *JobItem) any { return i.Info.GetPriority() }),
	jobField("summary", "Summary", Other, "What each opcode does, in a few words", LevelInfo,
		func(i *JobItem) any { return i.Info.GetSummary() }),
	timeField("received_ts", "Received", "When the job was submitted, in seconds and microseconds", (*messages.JobInfo).GetReceivedUs),
	timeField("start_ts", "Start", "When the job was started, in seconds and microseconds", (*messages.JobInfo).GetStartUs),
	timeField("end_ts", "End", "When the job ended, in seconds and microseconds", (*messages.JobInfo).GetEndUs),
	jobField("ops", "OpCodes", Other, "The opcodes with their parameters", LevelFile, perOp(func(o *job.Op) any { return o.Input })),
	jobField("opstatus", "OpCode_status", Other, "State of each opcode", LevelFile, opStatuses),
	jobField("opresult", "OpCode_result", Other, "What each opcode has returned", LevelFile, perOp(func(o *job.Op) any { return o.Result })),
	jobField("oplog", "OpCode_log", Other, "What each opcode has said", LevelFile, perOp(func(o *job.Op) any { return LogEntries(o.Log) })),
	jobField("oppriority", "OpCode_prio", Other, "Priority of each opcode", LevelFile, perOp(func(o *job.Op) any { return o.Priority })),
	jobField("opstart", "OpCode_start", Other, "When each opcode began to wait for its locks", LevelFile,
		perOp(func(o *job.Op) any { return opStamp(o.Start) })),
	jobField("opexec", "OpCode_exec", Other, "When each opcode had its locks", LevelFile,
		perOp(func(o *job.Op) any { return opStamp(o.Exec) })),
	jobField("opend", "OpCode_end", Other, "When each opcode ended", LevelFile, perOp(func(o *job.Op) any { return opStamp(o.End) })),
})

// jobField is a field of jobs that exist.
func jobField(name, title string, kind FieldType, doc string, level DataLevel, value func(*JobItem) any) JobField {
	return JobField{Definition: Definition{name, title, kind, doc}, Level: level, value: func(i *JobItem) Value {
		if i.Unknown {
			return unavailable()
		}
		return normal(value(i))
	}}
}

// timeField is a field that a job may not have yet, and that is compared by its seconds (queue.md 2.2).
func timeField(name, title, doc string, micros func(*messages.JobInfo) int64) JobField {
	return JobField{Definition: Definition{name, title, Other, doc}, Mode: CompareSeconds, Level: LevelInfo, value: func(i *JobItem) Value {
		us := micros(i.Info)
		if i.Unknown || us == 0 {
			return unavailable()
		}
		return normal([2]int64{us / 1e6, us % 1e6})
	}}
}

// JobFields is Find of Jobs.
func JobFields(names []string) ([]*JobField, error) { return Jobs.Find(names) }

// JobIDs are the jobs that a query is about if its filter asks only for ids: in the order asked, each once. only is false if the filter
// asks for anything else, or for a value that cannot be an id.
func JobIDs(q *Query[JobItem]) (ids []int64, only bool) {
	literals, only := q.KeyValues()
	if !only {
		return nil, false
	}
	seen := make(map[int64]bool, len(literals))
	for _, l := range literals {
		if l.IsText || l.Number < 0 {
			return nil, false // no job has that id; the filter reports what is wrong
		}
		if !seen[l.Number] {
			seen[l.Number] = true
			ids = append(ids, l.Number)
		}
	}
	return ids, true
}

// ClientStatus is a job's status for clients, wherever jobs are shown. A job that waits for other jobs is waiting, as
// designs.md "Status while waiting for dependencies" requires, and so is one that only locks or a reservation keep from
// its start, although no process has written that status (design.md "Differences").
func ClientStatus(i *messages.JobInfo) job.Status {
	if s := StatusOf(i); s != job.Queued || i.GetWait() == messages.StartWait_NOT_WAITING {
		return s
	}
	return job.Waiting
}

// CountedStatus is a job's status in metrics: a job without a process that waits for locks is queued.
func CountedStatus(i *messages.JobInfo) job.Status {
	if i.GetWait() == messages.StartWait_FOR_LOCKS {
		return StatusOf(i)
	}
	return ClientStatus(i)
}

// opStatuses are the statuses of the opcodes. The next one is waiting if the job is.
func opStatuses(i *JobItem) any {
	statuses := make([]string, len(i.Job.Ops))
	for k := range i.Job.Ops {
		statuses[k] = i.Job.Ops[k].Status.String()
	}
	if next := slices.Index(statuses, job.Queued.String()); next >= 0 && i.Job.Status() == job.Queued {
		statuses[next] = ClientStatus(i.Info).String()
	}
	return statuses
}

// LogEntries are log entries in the form for clients: [serial, [s, us], type, payload] (queue.md 1.6).
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

// NewJobInfo is the part of a job that the queue keeps in memory. encoded is the file's content, kept for jobs that
// are not final.
func NewJobInfo(j *job.Job, summary func(json.RawMessage) string, encoded []byte) *messages.JobInfo {
	info := &messages.JobInfo{
		Id: int64(j.ID), Status: int32(j.Status()), Priority: int32(j.Priority()),
		ReceivedUs: j.Received.Micros(), StartUs: j.Start.Micros(), EndUs: j.End.Micros(),
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

// ProgressOf is the progress of the job's command, as clients are shown it; nil: none.
func ProgressOf(info *messages.JobInfo) *answer.Progress {
	if p := info.Progress; p != nil {
		return answer.NewProgress(p.Percent, p.Text, p.SinceUs, p.UpdatedUs)
	}
	return nil
}

// TryOf is the try of a job's opcode as clients are shown it; nil: the opcode is not tried again.
func TryOf(t *messages.Try) *answer.Try {
	if t == nil {
		return nil
	}
	return &answer.Try{Number: int(t.Number), Most: int(t.Most), Last: t.Last}
}

func triesOf(info *messages.JobInfo) []answer.EndedTry {
	tries := make([]answer.EndedTry, len(info.Tries))
	for i, t := range info.Tries {
		tries[i] = answer.EndedTry{Opcode: int(t.Op), Result: t.Result, LogTo: t.LogTo,
			Start: answer.TimeOf(t.StartUs), End: answer.TimeOf(t.EndUs)}
		if len(t.Usage) > 0 {
			_ = json.Unmarshal(t.Usage, &tries[i].Usage) // of usageOf
		}
	}
	return tries
}

// AddRecord sets the fields of a job's info that come from the record.
func AddRecord(info *messages.JobInfo, j *job.Job, r record.Record) {
	info.Name, info.Result, info.Parent, info.Submitter = r.Name(), interned(r.Result(j)), r.Parent(), r.Submitter()
	if s := r.Schedule(); s.Name != "" {
		info.Schedule, info.ScheduleDueUs = interned(s.Name), s.DueUs
	}
	info.AtUs = r.AtUs()
	if j.IsPending() {
		info.DueUs = r.DueUs()
	}
	addTry(info, j, r)
	for _, t := range r.Tries() {
		info.Tries = append(info.Tries, &messages.EndedTry{Op: int32(t.Op), Result: interned(t.Words()),
			StartUs: t.BeganUs, EndUs: t.EndedUs, LogTo: t.LogTo, Usage: usageOf(t.Result)})
	}
}

// usageOf is the usage in the result of an opcode, as JSON; nil: there is none.
func usageOf(result json.RawMessage) []byte {
	u := job.UsageIn(result)
	if u == nil {
		return nil
	}
	encoded, err := json.Marshal(u)
	if err != nil {
		panic(err) // it was decoded
	}
	return encoded
}

// addTry sets the fields about the try of the opcode that runs, comes next, or has ended the job.
func addTry(info *messages.JobInfo, j *job.Job, r record.Record) {
	op := slices.IndexFunc(j.Ops, func(op job.Op) bool { return op.Status != job.Success })
	if op < 0 {
		op = len(j.Ops) - 1
	}
	if op < 0 {
		return
	}
	policy := retry.Of(j.Ops[op].Input)
	if policy.Times == 0 {
		return
	}
	info.Try = &messages.Try{Number: int32(r.TriesOf(op) + 1), Most: int32(policy.Tries())}
	if tries := r.Tries(); info.Try.Number > 1 {
		info.Try.Last = interned(tries[len(tries)-1].Words())
	}
}

// AddOrigin sets the fields of a job's info that come from the reason trail of the first opcode: the submitter, and the
// texts of clients.
func AddOrigin(info *messages.JobInfo, j *job.Job) {
	if len(j.Ops) == 0 {
		return
	}
	start, end, _ := rawjson.MemberRange(j.Ops[0].Input, "reason")
	_ = rawjson.ReadList(j.Ops[0].Input[start:end], func(entry []byte) { // a value that is not a list has no entries
		var source, text string
		if json.Unmarshal(entry, &[]any{&source, &text}) != nil {
			return
		}
		switch {
		case source == job.UserSource:
			by, _, _ := strings.Cut(text, ", ")
			info.User = interned(by)
		case source == job.SubmissionSource, source == job.SubmitterSource, text == "",
			strings.HasPrefix(source, "gnt:opcode:"), strings.HasPrefix(source, "gnt:client:"):
		default:
			info.Reasons = append(info.Reasons, interned(text))
		}
	})
}

// interned is the text with shared memory: many jobs have the same user, reasons and result.
func interned(text string) string { return unique.Make(text).Value() }
