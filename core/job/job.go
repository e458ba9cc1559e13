// Package job has the data of a job, the values that are derived from it, the JSON of job files, and the changes that
// the daemon and the job process make to a job. Every change of an opcode's status goes through the table in
// transitions.go.
//
// It is pure: every function takes its values, also the time, as arguments. It imports only rawjson and small packages
// of the standard library, because the job process links it and must start within milliseconds.
//
// Raw values (Op.Input, Op.Result, LogEntry.Payload) are shared between jobs and their clones, and may lie in the
// buffer a file was read into. Their bytes are never changed; a change replaces the slice.
package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// ID names a job: a non-negative number that is never assigned twice (queue.md 1.5).
type ID int64

// String is the decimal form, as in the file name job-N.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// Status is the status of an opcode, or the derived status of a job. The numbers are ordered as in Ganeti: started is >
// Queued, final is > Running (queue.md 4.2).
type Status uint8

const (
	// Queued: in by submission. Out to Waiting by the job process, to Canceled by a cancel before the
	// start, to Error by a failed start.
	Queued Status = iota
	// Waiting: in by the job process, which now acquires the opcode's locks. Out to Running by the same once it has
	// them, to Canceled by a cancel, to Error by a failure or by the death of the process. An opcode that is to be tried
	// again waits, too, from the end of a try on (retry.go).
	Waiting
	// Canceling: Ganeti's job processes write it on the way from Waiting to Canceled; lockstep's do not.
	Canceling
	// Running: in by the job process with all locks held. Out to Success, Error, or Waiting for another try by the job
	// process, to Error or Waiting by the daemon when the process has died.
	Running
	// Canceled is final: the opcode never ran.
	Canceled
	// Success is final. It stays if the process dies in a later opcode of the job.
	Success
	// Error is final: the opcode failed, could not start, or an earlier opcode of the job failed.
	Error
)

var statusNames = [...]string{
	Queued:    "queued",
	Waiting:   "waiting",
	Canceling: "canceling",
	Running:   "running",
	Canceled:  "canceled",
	Success:   "success",
	Error:     "error",
}

// String is the name on disk and on the wire (queue.md 3.3).
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "Status(" + strconv.Itoa(int(s)) + ")"
}

// ParseStatus is the inverse of String; false for every other text.
func ParseStatus(name string) (Status, bool) {
	for s, n := range statusNames {
		if n == name {
			return Status(s), true
		}
	}
	return 0, false
}

// Final reports whether s never changes: Canceled, Success, Error.
func (s Status) Final() bool { return s > Running }

// secMax keeps Nanos within an int64: 2262-04-11.
const secMax = 1<<63/1_000_000_000 - 1

// Timestamp is a moment in whole microseconds: Sec seconds after 1970 (0..secMax) and Usec microseconds (0..999999).
// The zero value means "unset", is null on disk, and sorts before all moments.
type Timestamp struct{ Sec, Usec int64 }

// TimestampOf cuts t to whole microseconds. The zero time.Time gives an unset Timestamp. A time before 1970 gives a
// Timestamp that cannot be encoded.
func TimestampOf(t time.Time) Timestamp {
	if t.IsZero() {
		return Timestamp{}
	}
	return Timestamp{Sec: t.Unix(), Usec: int64(t.Nanosecond() / 1000)}
}

// IsZero reports whether t is unset.
func (t Timestamp) IsZero() bool { return t == Timestamp{} }

// Time is t in UTC; the zero time.Time if t is unset.
func (t Timestamp) Time() time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(t.Sec, t.Usec*1000).UTC()
}

// Nanos is the number of nanoseconds since 1970, the unit of reason trails (queue.md 3.6).
func (t Timestamp) Nanos() int64 { return t.Sec*1_000_000_000 + t.Usec*1000 }

// Micros is the number of microseconds since 1970; 0 if t is unset.
func (t Timestamp) Micros() int64 { return t.Sec*1_000_000 + t.Usec }

// Compare is negative if t is earlier than u, 0 if they are the same, positive if t is later.
func (t Timestamp) Compare(u Timestamp) int {
	switch {
	case t == u:
		return 0
	case t.Before(u):
		return -1
	}
	return 1
}

// Before reports whether t is earlier than u.
func (t Timestamp) Before(u Timestamp) bool {
	return t.Sec < u.Sec || t.Sec == u.Sec && t.Usec < u.Usec
}

// valid reports whether t can be written: unset or within the documented ranges.
func (t Timestamp) valid() bool {
	return t.Sec >= 0 && t.Sec <= secMax && t.Usec >= 0 && t.Usec <= 999_999
}

// Job is the content of a job file (queue.md 3.2). Status, priority, and whether it is archived are not stored but
// derived.
type Job struct {
	ID       ID
	Ops      []Op      // in the order in which they run; a job without opcodes has succeeded
	Received Timestamp // when the job was submitted
	Start    Timestamp // when the first opcode began to wait for locks
	End      Timestamp // when the job became final
	Livelock string    // path of the file whose lock proves that the job's process lives, "" if unset
	// ProcessID is the operating system's id of the job process, 0 if unset.
	ProcessID int
}

// KeptMark is the content of paths.KeptMark for the job's kept output: when it was submitted.
func (j *Job) KeptMark() string { return fmt.Sprintf("[%d, %d]\n", j.Received.Sec, j.Received.Usec) }

// Op is one opcode of a job, with its status, log and result (queue.md 3.3).
type Op struct {
	// Input is the opcode, normally an object with OP_ID. Any valid JSON is kept unchanged, also unknown opcodes,
	// unknown keys, the order of keys and the spelling of numbers.
	Input  json.RawMessage
	Status Status
	Result json.RawMessage // return value, or [class, args] or a text on error (queue.md 3.4); nil for null
	Log    []LogEntry
	// Priority is -20 (most urgent) to 19; it is first the input's priority, which later changes do not alter. Files
	// with other numbers exist, so the codec does not check the range.
	Priority int
	Start    Timestamp // when it began to wait for locks
	Exec     Timestamp // when it had its locks and execution began
	End      Timestamp
}

// LogEntry is one line of an opcode's log (queue.md 3.5).
type LogEntry struct {
	Serial  int64 // from 1, increasing over the whole job
	Time    Timestamp
	Type    string          // the kind of the payload: a text, a piece of output, or a structure
	Payload json.RawMessage // nil for null
}

// Status derives the job's status from its opcodes (queue.md 4.2). A job without opcodes has succeeded.
func (j *Job) Status() Status {
	provisional, all := Queued, true
	for i := range j.Ops {
		switch s := j.Ops[i].Status; s {
		case Success:
			continue
		case Error, Canceling, Canceled:
			return s
		case Waiting, Running:
			provisional = s
		}
		all = false
	}
	if all {
		return Success
	}
	return provisional
}

// Progress returns the indexes of the opcode that executes and of the next one that has not begun; -1 if there is none.
func (j *Job) Progress() (executing, next int) {
	executing, next = -1, -1
	for i := range j.Ops {
		switch s := j.Ops[i].Status; {
		case s == Running:
			executing = i
		case next < 0 && !s.Final():
			next = i
		}
	}
	return executing, next
}

// FirstUnfinished is the index of the first opcode that is not final: the one that runs, or else the next one. It is the index of the
// last opcode if all are final.
func (j *Job) FirstUnfinished() int {
	for i := range j.Ops {
		if !j.Ops[i].Status.Final() {
			return i
		}
	}
	return len(j.Ops) - 1
}

// Priority is the most urgent, so the smallest, priority among the opcodes that are not final; 0 if there is none
// (queue.md 4.2).
func (j *Job) Priority() int {
	smallest, found := 0, false
	for i := range j.Ops {
		op := &j.Ops[i]
		if !op.Status.Final() && (!found || op.Priority < smallest) {
			smallest, found = op.Priority, true
		}
	}
	return smallest
}

// LastSerial is the highest serial in the logs of all opcodes, 0 if there is none. Serials increase within an opcode's
// log, so only the last entries are read.
func (j *Job) LastSerial() int64 {
	last := int64(0)
	for i := range j.Ops {
		if log := j.Ops[i].Log; len(log) > 0 {
			last = max(last, log[len(log)-1].Serial)
		}
	}
	return last
}

// LogAfter are the entries of all opcodes with a serial above the given one, in the order of the file.
func (j *Job) LogAfter(serial int64) []LogEntry {
	var entries []LogEntry
	for i := range j.Ops {
		for _, entry := range j.Ops[i].Log {
			if entry.Serial > serial {
				entries = append(entries, entry)
			}
		}
	}
	return entries
}

// Clone is a job that can be changed without changing j. Raw values are shared, because they are replaced and never
// edited.
func (j *Job) Clone() *Job {
	c := *j
	c.Ops = slices.Clone(j.Ops)
	for i := range c.Ops {
		c.Ops[i].Log = slices.Clone(c.Ops[i].Log)
	}
	return &c
}
