package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Encode writes a job file as Ganeti's Python does (queue.md 3.2): ASCII, a space behind every comma and colon outside
// of strings, keys in a fixed order, a newline at the end. What Decode reads from it equals j, except that raw values
// come back in that same form: their key order and the spelling of their numbers is kept, white space and string escapes
// become Python's, invalid UTF-8 becomes U+FFFD.
//
// It panics on what Decode would not accept, for such a file must never be written: a negative id or process id, an
// unknown status, a time out of range, an opcode without input, a raw value that CheckValue refuses.
func Encode(j *Job) []byte {
	return AppendEncoded(make([]byte, 0, encodedSize(j)), j)
}

// encodedSize is an estimate, exact enough that Encode seldom has to grow its buffer.
func encodedSize(j *Job) int {
	size := 256 + len(j.Livelock)
	for i := range j.Ops {
		op := &j.Ops[i]
		size += 256 + len(op.Input) + len(op.Input)/8 + len(op.Result) + len(op.Result)/8
		for k := range op.Log {
			size += 64 + len(op.Log[k].Payload) + len(op.Log[k].Payload)/8
		}
	}
	return size
}

// AppendEncoded appends what Encode gives to dst.
func AppendEncoded(dst []byte, j *Job) []byte {
	if err := encodable(j); err != nil {
		panic(fmt.Sprintf("encode job %d: %v", j.ID, err))
	}
	dst = append(dst, `{"id": `...)
	dst = strconv.AppendInt(dst, int64(j.ID), 10)
	dst = append(dst, `, "ops": [`...)
	for i := range j.Ops {
		if i > 0 {
			dst = append(dst, `, `...)
		}
		dst = appendOp(dst, &j.Ops[i])
	}
	dst = append(dst, `], "start_timestamp": `...)
	dst = appendTimestamp(dst, j.Start)
	dst = append(dst, `, "end_timestamp": `...)
	dst = appendTimestamp(dst, j.End)
	dst = append(dst, `, "received_timestamp": `...)
	dst = appendTimestamp(dst, j.Received)
	dst = append(dst, `, "livelock": `...)
	if j.Livelock == "" {
		dst = append(dst, `null`...)
	} else {
		dst = appendQuoted(dst, j.Livelock)
	}
	dst = append(dst, `, "process_id": `...)
	if j.ProcessID == 0 {
		dst = append(dst, `null`...)
	} else {
		dst = strconv.AppendInt(dst, int64(j.ProcessID), 10)
	}
	return append(dst, "}\n"...)
}

// encodable tells which of the invariants that Encode names j breaks; nil if none.
func encodable(j *Job) error {
	if j.ID < 0 {
		return errors.New("negative id")
	}
	if j.ProcessID < 0 {
		return fmt.Errorf("negative process id %d", j.ProcessID)
	}
	if err := cmp.Or(
		inRange(j.Received, "received_timestamp"), inRange(j.Start, "start_timestamp"), inRange(j.End, "end_timestamp"),
	); err != nil {
		return err
	}
	for i := range j.Ops {
		if err := encodableOp(&j.Ops[i]); err != nil {
			return fmt.Errorf("ops[%d]: %w", i, err)
		}
	}
	return nil
}

func encodableOp(op *Op) error {
	if int(op.Status) >= len(statusNames) {
		return fmt.Errorf("unknown status %s", op.Status)
	}
	if len(op.Input) == 0 {
		return errors.New("no input")
	}
	if err := cmp.Or(
		encodableRaw(op.Input, "input"), encodableRaw(op.Result, "result"),
		inRange(op.Start, "start_timestamp"), inRange(op.Exec, "exec_timestamp"), inRange(op.End, "end_timestamp"),
	); err != nil {
		return err
	}
	for i := range op.Log {
		entry := &op.Log[i]
		if err := cmp.Or(inRange(entry.Time, "time"), encodableRaw(entry.Payload, "payload")); err != nil {
			return fmt.Errorf("log[%d]: %w", i, err)
		}
	}
	return nil
}

func encodableRaw(raw json.RawMessage, key string) error {
	if len(raw) == 0 { // null
		return nil
	}
	if err := CheckValue(raw); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func inRange(t Timestamp, key string) error {
	if t.valid() {
		return nil
	}
	return fmt.Errorf("%s out of range: [%d, %d]", key, t.Sec, t.Usec)
}

func appendOp(dst []byte, op *Op) []byte {
	dst = append(dst, `{"input": `...)
	dst = appendRaw(dst, op.Input)
	dst = append(dst, `, "status": "`...)
	dst = append(dst, op.Status.String()...)
	dst = append(dst, `", "result": `...)
	dst = appendRaw(dst, op.Result)
	dst = append(dst, `, "log": [`...)
	for i := range op.Log {
		if i > 0 {
			dst = append(dst, `, `...)
		}
		dst = appendLogEntry(dst, &op.Log[i])
	}
	dst = append(dst, `], "start_timestamp": `...)
	dst = appendTimestamp(dst, op.Start)
	dst = append(dst, `, "exec_timestamp": `...)
	dst = appendTimestamp(dst, op.Exec)
	dst = append(dst, `, "end_timestamp": `...)
	dst = appendTimestamp(dst, op.End)
	dst = append(dst, `, "priority": `...)
	dst = strconv.AppendInt(dst, int64(op.Priority), 10)
	return append(dst, '}')
}

func appendLogEntry(dst []byte, entry *LogEntry) []byte {
	dst = append(dst, '[')
	dst = strconv.AppendInt(dst, entry.Serial, 10)
	dst = append(dst, `, `...)
	dst = appendTimestamp(dst, entry.Time)
	dst = append(dst, `, `...)
	dst = appendQuoted(dst, entry.Type)
	dst = append(dst, `, `...)
	dst = appendRaw(dst, entry.Payload)
	return append(dst, ']')
}

func appendTimestamp(dst []byte, t Timestamp) []byte {
	if t.IsZero() {
		return append(dst, `null`...)
	}
	dst = append(dst, '[')
	dst = strconv.AppendInt(dst, t.Sec, 10)
	dst = append(dst, `, `...)
	dst = strconv.AppendInt(dst, t.Usec, 10)
	return append(dst, ']')
}

// appendRaw appends raw, which has to be valid, in Python's form; null if it is empty.
func appendRaw(dst []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return append(dst, `null`...)
	}
	r := rewriter{dst: dst, src: raw}
	r.rewrite()
	return r.dst
}

// rewriter copies valid JSON into Python's form. What is in that form already is copied in long runs.
//
// Invariant: 0 <= copied <= pos <= len(src); dst holds the new form of src[:copied], and src[copied:pos] is to be copied
// as it is.
type rewriter struct {
	dst, src    []byte
	copied, pos int
}

func (r *rewriter) rewrite() {
	for r.pos < len(r.src) {
		switch c := r.src[r.pos]; {
		case c == '"':
			r.rewriteString()
		case c == ',' || c == ':':
			r.pos++
			r.separate()
		case isSpace(c):
			r.replace(1)
		default:
			r.pos++
		}
	}
	r.replace(0)
}

// separate puts one space behind the comma or colon just passed. White space that follows is left to rewrite.
func (r *rewriter) separate() {
	// A token always follows, so that both indices exist in valid JSON if the first is a space.
	if r.src[r.pos] == ' ' && !isSpace(r.src[r.pos+1]) {
		r.pos++
		return
	}
	r.replace(0)
	r.dst = append(r.dst, ' ')
}

// replace copies what is still to be copied, and skips the next n bytes for the caller to append something else.
func (r *rewriter) replace(n int) {
	r.dst = append(r.dst, r.src[r.copied:r.pos]...)
	r.pos += n
	r.copied = r.pos
}

func (r *rewriter) rewriteString() {
	for r.pos++; ; {
		switch c := r.src[r.pos]; {
		case isPlain(c):
			r.pos++
		case c == '"':
			r.pos++
			return
		case c == '\\':
			r.rewriteEscape()
		default:
			char, n := utf8.DecodeRune(r.src[r.pos:]) // U+FFFD, 1 if invalid
			r.replace(n)
			r.dst = appendRune(r.dst, char)
		}
	}
}

// rewriteEscape spells the escape at pos as Python does. Each half of a surrogate pair is an escape of its own, so that
// pairs stay pairs and a lone half survives.
func (r *rewriter) rewriteEscape() {
	switch r.src[r.pos+1] {
	case '/':
		r.replace(2)
		r.dst = append(r.dst, '/')
	case 'u':
		unit, err := strconv.ParseUint(string(r.src[r.pos+2:r.pos+6]), 16, 16)
		if err != nil {
			panic("checked escape is invalid: " + err.Error())
		}
		r.replace(6)
		r.dst = appendUnit(r.dst, uint16(unit))
	default:
		r.pos += 2
	}
}

// Quote gives s as a JSON string in ASCII, spelled as by Python. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) json.RawMessage {
	return appendQuoted(make([]byte, 0, len(s)+2), s)
}

func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	copied := 0
	for i := 0; i < len(s); {
		if isPlain(s[i]) {
			i++
			continue
		}
		dst = append(dst, s[copied:i]...)
		char, n := utf8.DecodeRuneInString(s[i:])
		dst = appendRune(dst, char)
		i += n
		copied = i
	}
	dst = append(dst, s[copied:]...)
	return append(dst, '"')
}

// appendRune appends the character as it is spelled within a string.
func appendRune(dst []byte, char rune) []byte {
	if char >= 0x10000 {
		char -= 0x10000
		dst = appendUnit(dst, uint16(0xd800+char>>10))
		char = 0xdc00 + char&0x3ff
	}
	return appendUnit(dst, uint16(char))
}

// appendUnit appends one UTF-16 code unit as it is spelled within a string.
func appendUnit(dst []byte, unit uint16) []byte {
	const hex = "0123456789abcdef"
	switch unit {
	case '"', '\\':
		return append(dst, '\\', byte(unit))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if unit >= ' ' && unit <= '~' {
		return append(dst, byte(unit))
	}
	return append(dst, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
}
