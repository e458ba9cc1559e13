package job

import (
	"encoding/json"
	"math"

	"lockstep/core/rawjson"
)

// keySet is a set of keys that were seen in an object, to find missing and repeated ones.
type keySet uint16

// The keys of the job object (queue.md 3.2) and of the queued-op object (queue.md 3.3).
const (
	keyID keySet = 1 << iota
	keyOps
	keyReceived
	keyLivelock
	keyProcessID
	keyInput
	keyStatus
	keyResult
	keyLog
	keyPriority
	keyStart
	keyExec
	keyEnd
)

// Decode reads a job file (queue.md 3.2 to 3.5). The raw values of the job lie in data, which must not be changed
// afterwards. An empty list, of opcodes or log entries, becomes nil.
//
// It is strict. These are errors: an unknown or repeated key in the job object or a queued-op object, a missing id,
// ops, input or status, malformed JSON, and text after the object. For other keys null means the same as absence. The
// order of log serials is not checked. The error is a *rawjson.Error.
func Decode(data []byte) (*Job, error) {
	s := decoder{rawjson.NewScanner(data)}
	j, err := s.job()
	if err == nil {
		err = s.End()
	}
	if err == nil {
		return j, nil
	}
	if err.Path == "" {
		err.Path = "job"
	}
	return nil, err
}

// decoder reads the parts of a job file in one pass.
type decoder struct{ rawjson.Scanner }

func (s *decoder) job() (*Job, *rawjson.Error) {
	j := &Job{}
	seen := keySet(0)
	start := s.Pos()
	for more, err := s.Enter('{'); more || err != nil; more, err = s.Next('{') {
		if err != nil {
			return nil, err
		}
		keyStart := s.Pos()
		key, err := s.Key()
		if err != nil {
			return nil, err
		}
		field, err := s.jobMember(j, key)
		if err != nil {
			return nil, err.Under(string(key))
		}
		if field == 0 || seen&field != 0 {
			return nil, s.badKey(keyStart, key, field)
		}
		seen |= field
	}
	return j, s.missing(start, seen, keyID, "id", keyOps, "ops")
}

// jobMember reads the value of the given key into j; it returns 0, without reading the value, if the key is unknown.
func (s *decoder) jobMember(j *Job, key []byte) (field keySet, err *rawjson.Error) {
	switch string(key) {
	case "id":
		field = keyID
		j.ID, err = s.id()
	case "ops":
		field = keyOps
		j.Ops, err = s.ops()
	case "received_timestamp":
		field = keyReceived
		j.Received, err = s.timestamp()
	case "start_timestamp":
		field = keyStart
		j.Start, err = s.timestamp()
	case "end_timestamp":
		field = keyEnd
		j.End, err = s.timestamp()
	case "livelock":
		field = keyLivelock
		j.Livelock, err = s.optionalString()
	case "process_id":
		field = keyProcessID
		j.ProcessID, err = s.optionalInt(0, math.MaxInt32)
	}
	return field, err
}

func (s *decoder) ops() ([]Op, *rawjson.Error) {
	var ops []Op
	for more, err := s.Enter('['); more || err != nil; more, err = s.Next('[') {
		if err != nil {
			return nil, err
		}
		ops = append(ops, Op{})
		i := len(ops) - 1
		if err := s.op(&ops[i]); err != nil {
			return nil, err.UnderElement(i)
		}
	}
	return ops, nil
}

func (s *decoder) op(op *Op) *rawjson.Error {
	seen := keySet(0)
	start := s.Pos()
	for more, err := s.Enter('{'); more || err != nil; more, err = s.Next('{') {
		if err != nil {
			return err
		}
		keyStart := s.Pos()
		key, err := s.Key()
		if err != nil {
			return err
		}
		field, err := s.opMember(op, key)
		if err != nil {
			return err.Under(string(key))
		}
		if field == 0 || seen&field != 0 {
			return s.badKey(keyStart, key, field)
		}
		seen |= field
	}
	return s.missing(start, seen, keyInput, "input", keyStatus, "status")
}

// opMember reads a member of an opcode, as jobMember does for a job. field is 0 for an unknown key, whose value is not read.
func (s *decoder) opMember(op *Op, key []byte) (field keySet, err *rawjson.Error) {
	switch string(key) {
	case "input":
		field = keyInput
		op.Input, err = s.Value()
	case "status":
		field = keyStatus
		op.Status, err = s.status()
	case "result":
		field = keyResult
		op.Result, err = s.optionalRaw()
	case "log":
		field = keyLog
		op.Log, err = s.log()
	case "priority":
		field = keyPriority
		op.Priority, err = s.optionalInt(math.MinInt32, math.MaxInt32)
	case "start_timestamp":
		field = keyStart
		op.Start, err = s.timestamp()
	case "exec_timestamp":
		field = keyExec
		op.Exec, err = s.timestamp()
	case "end_timestamp":
		field = keyEnd
		op.End, err = s.timestamp()
	}
	return field, err
}

// badKey is the error for a key that is unknown (field 0) or repeated.
func (s *decoder) badKey(offset int, key []byte, field keySet) *rawjson.Error {
	if field == 0 {
		return s.FailAt(offset, "unknown key %+.40q", key)
	}
	return s.FailAt(offset, "key %q is repeated", key)
}

// missing is the error for the first of two required keys that was not seen in the object at start.
func (s *decoder) missing(start int, seen, a keySet, aName string, b keySet, bName string) *rawjson.Error {
	switch {
	case seen&a == 0:
		return s.FailAt(start, "key %q is missing", aName)
	case seen&b == 0:
		return s.FailAt(start, "key %q is missing", bName)
	}
	return nil
}

func (s *decoder) log() ([]LogEntry, *rawjson.Error) {
	if s.Literal("null") {
		return nil, nil
	}
	var entries []LogEntry
	for more, err := s.Enter('['); more || err != nil; more, err = s.Next('[') {
		if err != nil {
			return nil, err
		}
		entries = append(entries, LogEntry{})
		i := len(entries) - 1
		if err := s.logEntry(&entries[i]); err != nil {
			return nil, err.UnderElement(i)
		}
	}
	return entries, nil
}

// logEntry reads [serial, [sec, usec], type, payload].
func (s *decoder) logEntry(entry *LogEntry) *rawjson.Error {
	start, n := s.Pos(), 0
	for more, err := s.Enter('['); more || err != nil; more, err = s.Next('[') {
		if err != nil {
			return err
		}
		switch n {
		case 0:
			entry.Serial, err = s.Integer(math.MinInt64, math.MaxInt64)
		case 1:
			entry.Time, err = s.timestamp()
		case 2:
			entry.Type, err = s.logType()
		case 3:
			entry.Payload, err = s.optionalRaw()
		default:
			return s.FailAt(start, "want 4 elements, found more")
		}
		if err != nil {
			return err.UnderElement(n)
		}
		n++
	}
	if n != 4 {
		return s.FailAt(start, "want 4 elements, found %d", n)
	}
	return nil
}

// logType reads the type of a log entry. It does not allocate for the usual types.
func (s *decoder) logType() (string, *rawjson.Error) {
	text, err := s.Text()
	if err != nil {
		return "", err
	}
	switch string(text) {
	case LogMessage:
		return LogMessage, nil
	case LogStdout:
		return LogStdout, nil
	case LogStderr:
		return LogStderr, nil
	case "jqueue-test":
		return "jqueue-test", nil
	}
	return string(text), nil
}

// timestamp reads [sec, usec] or null.
func (s *decoder) timestamp() (Timestamp, *rawjson.Error) {
	var t Timestamp
	if s.Literal("null") {
		return t, nil
	}
	start, n := s.Pos(), 0
	for more, err := s.Enter('['); more || err != nil; more, err = s.Next('[') {
		if err != nil {
			return t, err
		}
		switch n {
		case 0:
			t.Sec, err = s.Integer(0, secMax)
		case 1:
			t.Usec, err = s.Integer(0, 999_999)
		default:
			return t, s.FailAt(start, "want [seconds, microseconds], found more")
		}
		if err != nil {
			return t, err.UnderElement(n)
		}
		n++
	}
	if n != 2 {
		return t, s.FailAt(start, "want [seconds, microseconds], found %d elements", n)
	}
	return t, nil
}

func (s *decoder) status() (Status, *rawjson.Error) {
	start := s.Pos()
	if s.Peek() != '"' {
		return 0, s.Fail("want a status, found %s", s.Found())
	}
	name, err := s.Text()
	if err != nil {
		return 0, err
	}
	status, ok := ParseStatus(string(name))
	if !ok {
		return 0, s.FailAt(start, "unknown status %+.40q", name)
	}
	return status, nil
}

// id reads a job id: a number, or a string of decimal digits (queue.md 1.4).
func (s *decoder) id() (ID, *rawjson.Error) {
	if s.Peek() != '"' {
		n, err := s.Integer(0, math.MaxInt64)
		return ID(n), err
	}
	start := s.Pos()
	digits, err := s.Text()
	if err != nil {
		return 0, err
	}
	n, ok := rawjson.ParseInt(digits)
	if !ok || n < 0 {
		return 0, s.FailAt(start, "want a job id, found %+.40q", digits)
	}
	return ID(n), nil
}

func (s *decoder) optionalString() (string, *rawjson.Error) {
	if s.Literal("null") {
		return "", nil
	}
	text, err := s.Text()
	return string(text), err
}

func (s *decoder) optionalInt(least, most int64) (int, *rawjson.Error) {
	if s.Literal("null") {
		return 0, nil
	}
	n, err := s.Integer(least, most)
	return int(n), err
}

// optionalRaw reads a value of any type, nil for null.
func (s *decoder) optionalRaw() (json.RawMessage, *rawjson.Error) {
	if s.Literal("null") {
		return nil, nil
	}
	return s.Value()
}
