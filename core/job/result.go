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
