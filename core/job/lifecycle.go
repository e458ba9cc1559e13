package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"lockstep/core/rawjson"
)

// New is a newly submitted job: every opcode is queued, with the priority of the same index. It panics unless there are
// as many priorities as inputs.
func New(id ID, inputs []json.RawMessage, priorities []int, received Timestamp, livelock string) *Job {
	if len(inputs) != len(priorities) {
		panic(fmt.Sprintf("job %d: %d inputs, %d priorities", id, len(inputs), len(priorities)))
	}
	j := &Job{ID: id, Received: received, Livelock: livelock}
	for i, input := range inputs {
		j.Ops = append(j.Ops, Op{Input: input, Status: Queued, Priority: priorities[i]})
	}
	return j
}

// FailUnfinished ends the job, for example after the death of its process: every opcode that is not final fails with the
// given result and end stamp. Final opcodes stay as they are. The end stamp of the job is set, unless no opcode was
// unfinished and the stamp is set already.
func (j *Job) FailUnfinished(result json.RawMessage, now Timestamp) {
	j.endUnfinished(Fail, result, now)
}

// CancelUnstarted cancels a job none of whose opcodes executes: every opcode that is not final becomes canceled with the
// given result. The result is nil, JSON's null, for a job that was canceled while queued (queue.md 3.4). Stamps are set as
// by FailUnfinished. It panics if an opcode executes.
func (j *Job) CancelUnstarted(result json.RawMessage, now Timestamp) {
	j.endUnfinished(Cancel, result, now)
}

func (j *Job) endUnfinished(e Event, result json.RawMessage, now Timestamp) {
	for i := range j.Ops {
		op := &j.Ops[i]
		if op.Status.Final() {
			continue
		}
		op.Take(e)
		op.Result, op.End = result, now
		j.End = now
	}
	if j.End.IsZero() {
		j.End = now
	}
}

// Reprioritise gives every opcode that is queued or waiting another priority (queue.md 4.8). The inputs, as the client
// submitted them, stay.
func (j *Job) Reprioritise(priority int) {
	for i := range j.Ops {
		op := &j.Ops[i]
		if _, takes := op.Status.On(Reprioritise); takes {
			op.Priority = priority
		}
	}
}

// TakesPriority reports whether Reprioritise would change an opcode.
func (j *Job) TakesPriority() bool {
	return slices.ContainsFunc(j.Ops, func(op Op) bool { _, takes := op.Status.On(Reprioritise); return takes })
}

// AppendLog adds an entry to the log of the opcode with the given index and returns it. Its serial is the next of the
// job (queue.md 3.5).
func (j *Job) AppendLog(op int, at Timestamp, typ string, payload json.RawMessage) LogEntry {
	entry := LogEntry{Serial: j.LastSerial() + 1, Time: at, Type: typ, Payload: payload}
	j.Ops[op].Log = append(j.Ops[op].Log, entry)
	return entry
}

// AppendReason adds [source, reason, at in nanoseconds] to the reason trail in every opcode's input (queue.md 3.6).
// source and reason receive the opcode's index. All other bytes of the input stay. A missing or null trail becomes a
// list. An input that is not an object, or whose trail is not a list, is not changed.
func (j *Job) AppendReason(source, reason func(op int) string, at Timestamp) {
	for i := range j.Ops {
		op := &j.Ops[i]
		entry := rawjson.AppendQuoted([]byte{'['}, source(i))
		entry = append(entry, `, `...)
		entry = rawjson.AppendQuoted(entry, reason(i))
		entry = append(entry, `, `...)
		entry = strconv.AppendInt(entry, at.Nanos(), 10)
		op.Input = withReason(op.Input, append(entry, ']'))
	}
}

// withReason is a copy of input with the entry at the end of its reason trail, or input itself if the trail cannot be
// extended.
func withReason(input json.RawMessage, entry []byte) json.RawMessage {
	start, end, isObject := rawjson.MemberRange(input, "reason")
	trail := input[start:end]
	switch {
	case !isObject:
		return input
	case end == 0:
		return appendMember(input, len(input), `"reason": [`, entry, `]`)
	case string(trail) == "null":
		return slices.Concat(input[:start], []byte{'['}, entry, []byte{']'}, input[end:])
	case trail[0] == '[':
		return appendMember(input, end, ``, entry, ``)
	}
	return input
}

// appendMember appends a member or element to the object or list whose closing bracket is the last non-space byte of
// raw[:end].
func appendMember(raw []byte, end int, before string, entry []byte, after string) json.RawMessage {
	const space = " \t\r\n"
	inside := bytes.TrimRight(raw[:end], space)
	inside = bytes.TrimRight(inside[:len(inside)-1], space)
	at := len(inside)
	comma := `, `
	if last := inside[at-1]; last == '[' || last == '{' { // no value ends with an opening bracket
		comma = ``
	}
	return slices.Concat(raw[:at], []byte(comma), []byte(before), entry, []byte(after), raw[at:])
}

// OpID is the OP_ID of an opcode, "" if input is not a valid object or has no such string.
func OpID(input json.RawMessage) string {
	start, end, isObject := rawjson.MemberRange(input, "OP_ID")
	if !isObject || start == 0 || input[start] != '"' {
		return ""
	}
	return string(rawjson.Unquote(input[start:end]))
}
