package job

import (
	"encoding/json"
	"fmt"

	"lockstep/core/rawjson"
)

// ErrorResult is the result of a failed opcode, ["Class", [args...]] (queue.md 3.4, classes in 1.3). It panics on an
// argument that encoding/json refuses.
func ErrorResult(class string, args ...any) json.RawMessage {
	dst := append([]byte(nil), '[')
	dst = rawjson.AppendQuoted(dst, class)
	dst = append(dst, `, [`...)
	for i, arg := range args {
		if i > 0 {
			dst = append(dst, `, `...)
		}
		dst = appendArg(dst, arg)
	}
	return append(dst, `]]`...)
}

func appendArg(dst []byte, arg any) []byte {
	if text, ok := arg.(string); ok { // the usual type
		return rawjson.AppendQuoted(dst, text)
	}
	raw, err := json.Marshal(arg)
	if err != nil {
		panic(fmt.Sprintf("argument of an error result: %v", err))
	}
	return rawjson.AppendPython(dst, raw)
}

// Failure is the result of a failed opcode: ["Class", [text, details]] (queue.md 3.4). The details of a command say how it has ended:
// one of ExitStatus, Signal and Timeout is set.
type Failure struct {
	Class      string
	Text       string
	ExitStatus *int
	Signal     json.RawMessage // a name, or the number in old files
	Timeout    *float64        // the time limit in seconds
}

// ParseFailure reads the result of a failed opcode; false if it has another form.
func ParseFailure(result json.RawMessage) (f Failure, ok bool) {
	var args []json.RawMessage
	if json.Unmarshal(result, &[]any{&f.Class, &args}) != nil {
		return Failure{}, false
	}
	if len(args) > 0 {
		_ = json.Unmarshal(args[0], &f.Text) // a text, for all of lockstep's errors
	}
	var details struct {
		ExitStatus *int            `json:"exit_status"`
		Signal     json.RawMessage `json:"signal"`
		Timeout    *float64        `json:"timeout"`
	}
	if len(args) > 1 {
		_ = json.Unmarshal(args[1], &details) // other details have none of these keys
	}
	f.ExitStatus, f.Signal, f.Timeout = details.ExitStatus, details.Signal, details.Timeout
	return f, true
}
