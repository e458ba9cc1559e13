package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"lockstep/core/rawjson"
)

// Encode writes a job file as Ganeti's Python does (queue.md 3.2): ASCII, a space after every comma and colon outside
// of strings, keys in a fixed order, a newline at the end. Decode reads a job from it that equals j, except for the
// spelling of raw values: white space and string escapes become Python's, and invalid UTF-8 becomes U+FFFD. The order
// of keys and the spelling of numbers stay.
//
// It panics on a job that Decode would refuse, because such a file must never be written: a negative id or process id,
// an unknown status, a time out of range, an opcode without input, a raw value that rawjson.Check refuses.
func Encode(j *Job) []byte {
	return AppendEncoded(make([]byte, 0, encodedSize(j)), j)
}

// encodedSize is an estimate of the encoded size in bytes with which Encode rarely grows its buffer.
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

// AppendEncoded appends Encode(j) to dst. It panics if the job breaks an invariant of Encode.
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
		dst = rawjson.AppendQuoted(dst, j.Livelock)
	}
	dst = append(dst, `, "process_id": `...)
	if j.ProcessID == 0 {
		dst = append(dst, `null`...)
	} else {
		dst = strconv.AppendInt(dst, int64(j.ProcessID), 10)
	}
	return append(dst, "}\n"...)
}

// encodable is the error for the first invariant of Encode that j breaks.
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
	if err := rawjson.Check(raw); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// inRange is the error for a timestamp that a job file cannot have. The two numbers in its text are the seconds and the microseconds of
// the timestamp, not the limits.
func inRange(t Timestamp, key string) error {
	if t.valid() {
		return nil
	}
	return fmt.Errorf("%s out of range: [%d, %d]", key, t.Sec, t.Usec)
}

func appendOp(dst []byte, op *Op) []byte {
	dst = append(dst, `{"input": `...)
	dst = rawjson.AppendPython(dst, op.Input)
	dst = append(dst, `, "status": "`...)
	dst = append(dst, op.Status.String()...)
	dst = append(dst, `", "result": `...)
	dst = rawjson.AppendPython(dst, op.Result)
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
	dst = rawjson.AppendQuoted(dst, entry.Type)
	dst = append(dst, `, `...)
	dst = rawjson.AppendPython(dst, entry.Payload)
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
