package job

import (
	"encoding/json"
	"math"
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
// It is strict: a key that is unknown or repeated in the job object or a queued-op object, a missing id, ops, input or
// status, malformed JSON anywhere, and anything but white space behind the object are errors. For every other key null
// means the same as its absence. Whether log serials increase is not checked. The error is a *DecodeError.
func Decode(data []byte) (*Job, error) {
	s := scanner{data: data}
	s.skipSpace()
	j, err := s.job()
	if err != nil {
		return nil, err
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	return j, nil
}

func (s *scanner) job() (*Job, *DecodeError) {
	j := &Job{}
	seen := keySet(0)
	start := s.pos
	for more, err := s.enter('{'); more || err != nil; more, err = s.next('{') {
		if err != nil {
			return nil, err
		}
		keyStart := s.pos
		key, err := s.key()
		if err != nil {
			return nil, err
		}
		field, err := s.jobMember(j, key)
		if err != nil {
			return nil, err.under(string(key))
		}
		if field == 0 || seen&field != 0 {
			return nil, s.badKey(keyStart, key, field)
		}
		seen |= field
	}
	return j, s.missing(start, seen, keyID, "id", keyOps, "ops")
}

// jobMember reads the value of the given key into j; it returns 0, with pos still on the value, if there is no such key.
func (s *scanner) jobMember(j *Job, key []byte) (field keySet, err *DecodeError) {
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

func (s *scanner) ops() ([]Op, *DecodeError) {
	var ops []Op
	for more, err := s.enter('['); more || err != nil; more, err = s.next('[') {
		if err != nil {
			return nil, err
		}
		ops = append(ops, Op{})
		i := len(ops) - 1
		if err := s.op(&ops[i]); err != nil {
			return nil, err.underElement(i)
		}
	}
	return ops, nil
}

func (s *scanner) op(op *Op) *DecodeError {
	seen := keySet(0)
	start := s.pos
	for more, err := s.enter('{'); more || err != nil; more, err = s.next('{') {
		if err != nil {
			return err
		}
		keyStart := s.pos
		key, err := s.key()
		if err != nil {
			return err
		}
		field, err := s.opMember(op, key)
		if err != nil {
			return err.under(string(key))
		}
		if field == 0 || seen&field != 0 {
			return s.badKey(keyStart, key, field)
		}
		seen |= field
	}
	return s.missing(start, seen, keyInput, "input", keyStatus, "status")
}

// opMember is to op what jobMember is to a job.
func (s *scanner) opMember(op *Op, key []byte) (field keySet, err *DecodeError) {
	switch string(key) {
	case "input":
		field = keyInput
		op.Input, err = s.raw()
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
func (s *scanner) badKey(offset int, key []byte, field keySet) *DecodeError {
	if field == 0 {
		return s.failAt(offset, "unknown key %+.40q", key)
	}
	return s.failAt(offset, "key %q is repeated", key)
}

// missing is the error for the first of two required keys that was not seen in the object at start.
func (s *scanner) missing(start int, seen, a keySet, aName string, b keySet, bName string) *DecodeError {
	switch {
	case seen&a == 0:
		return s.failAt(start, "key %q is missing", aName)
	case seen&b == 0:
		return s.failAt(start, "key %q is missing", bName)
	}
	return nil
}

func (s *scanner) log() ([]LogEntry, *DecodeError) {
	if s.skipLiteral("null") {
		return nil, nil
	}
	var entries []LogEntry
	for more, err := s.enter('['); more || err != nil; more, err = s.next('[') {
		if err != nil {
			return nil, err
		}
		entries = append(entries, LogEntry{})
		i := len(entries) - 1
		if err := s.logEntry(&entries[i]); err != nil {
			return nil, err.underElement(i)
		}
	}
	return entries, nil
}

// logEntry reads [serial, [sec, usec], type, payload].
func (s *scanner) logEntry(entry *LogEntry) *DecodeError {
	start, n := s.pos, 0
	for more, err := s.enter('['); more || err != nil; more, err = s.next('[') {
		if err != nil {
			return err
		}
		switch n {
		case 0:
			entry.Serial, err = s.integer(math.MinInt64, math.MaxInt64)
		case 1:
			entry.Time, err = s.timestamp()
		case 2:
			entry.Type, err = s.logType()
		case 3:
			entry.Payload, err = s.optionalRaw()
		default:
			return s.failAt(start, "want 4 elements, found more")
		}
		if err != nil {
			return err.underElement(n)
		}
		n++
	}
	if n != 4 {
		return s.failAt(start, "want 4 elements, found %d", n)
	}
	return nil
}

// logType spares the usual types a copy each.
func (s *scanner) logType() (string, *DecodeError) {
	if s.peek() != '"' {
		return "", s.fail("want a string, found %s", s.found())
	}
	text, err := s.text()
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
func (s *scanner) timestamp() (Timestamp, *DecodeError) {
	var t Timestamp
	if s.skipLiteral("null") {
		return t, nil
	}
	start, n := s.pos, 0
	for more, err := s.enter('['); more || err != nil; more, err = s.next('[') {
		if err != nil {
			return t, err
		}
		switch n {
		case 0:
			t.Sec, err = s.integer(0, secMax)
		case 1:
			t.Usec, err = s.integer(0, 999_999)
		default:
			return t, s.failAt(start, "want [seconds, microseconds], found more")
		}
		if err != nil {
			return t, err.underElement(n)
		}
		n++
	}
	if n != 2 {
		return t, s.failAt(start, "want [seconds, microseconds], found %d elements", n)
	}
	return t, nil
}

func (s *scanner) status() (Status, *DecodeError) {
	start := s.pos
	if s.peek() != '"' {
		return 0, s.fail("want a status, found %s", s.found())
	}
	name, err := s.text()
	if err != nil {
		return 0, err
	}
	status, ok := ParseStatus(string(name))
	if !ok {
		return 0, s.failAt(start, "unknown status %+.40q", name)
	}
	return status, nil
}

// id reads a number, or a string of decimal digits (queue.md 1.4).
func (s *scanner) id() (ID, *DecodeError) {
	if s.peek() != '"' {
		n, err := s.integer(0, math.MaxInt64)
		return ID(n), err
	}
	start := s.pos
	digits, err := s.text()
	if err != nil {
		return 0, err
	}
	n, ok := parseInt(digits)
	if !ok || n < 0 {
		return 0, s.failAt(start, "want a job id, found %+.40q", digits)
	}
	return ID(n), nil
}

func (s *scanner) optionalString() (string, *DecodeError) {
	if s.skipLiteral("null") {
		return "", nil
	}
	if s.peek() != '"' {
		return "", s.fail("want a string, found %s", s.found())
	}
	text, err := s.text()
	return string(text), err
}

func (s *scanner) optionalInt(least, most int64) (int, *DecodeError) {
	if s.skipLiteral("null") {
		return 0, nil
	}
	n, err := s.integer(least, most)
	return int(n), err
}

// integer reads a number without fraction and exponent, in the given range.
func (s *scanner) integer(least, most int64) (int64, *DecodeError) {
	start := s.pos
	if c := s.peek(); c != '-' && !isDigit(c) {
		return 0, s.fail("want an integer, found %s", s.found())
	}
	if err := s.skipNumber(); err != nil {
		return 0, err
	}
	number := s.data[start:s.pos]
	n, ok := parseInt(number)
	if !ok || n < least || n > most {
		return 0, s.failAt(start, "want an integer from %d to %d, found %.40s", least, most, number)
	}
	return n, nil
}

// parseInt reads an optional minus and decimal digits; false for any other text and for what no int64 can hold.
func parseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	n := int64(0) // minus the number, for the negative side reaches one further
	for _, c := range b {
		if !isDigit(c) || n < (math.MinInt64+int64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 - int64(c-'0')
	}
	if negative {
		return n, true
	}
	return -n, n != math.MinInt64
}

// raw takes any value as it stands. Its depth is counted from its own top, as CheckValue does.
func (s *scanner) raw() (json.RawMessage, *DecodeError) {
	start, outside := s.pos, s.depth
	s.depth = 0
	if err := s.skipValue(); err != nil {
		return nil, err
	}
	s.depth = outside
	return json.RawMessage(s.data[start:s.pos:s.pos]), nil // cut to its length, so that an append cannot write into data
}

// optionalRaw is raw with nil for null.
func (s *scanner) optionalRaw() (json.RawMessage, *DecodeError) {
	if s.skipLiteral("null") {
		return nil, nil
	}
	return s.raw()
}
