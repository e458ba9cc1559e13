package query

import (
	"encoding/json"
	"fmt"
	"strconv"

	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// appendJSON appends a value. It writes the frequent types without encoding/json, which would take most of the time of
// a long list.
func appendJSON(dst []byte, data any) []byte {
	switch data := data.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, data)
	case string:
		return appendText(dst, data)
	case int:
		return strconv.AppendInt(dst, int64(data), 10)
	case int32:
		return strconv.AppendInt(dst, int64(data), 10)
	case int64:
		return strconv.AppendInt(dst, data, 10)
	case job.ID:
		return strconv.AppendInt(dst, int64(data), 10)
	case [2]int64:
		dst = strconv.AppendInt(append(dst, '['), data[0], 10)
		return append(strconv.AppendInt(append(dst, ','), data[1], 10), ']')
	case json.RawMessage:
		if len(data) == 0 {
			return append(dst, "null"...)
		}
		return append(dst, data...)
	case []string:
		return appendList(dst, data, appendText)
	case []int:
		return appendList(dst, data, func(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) })
	case []any:
		return appendList(dst, data, appendJSON)
	case [][4]any:
		return appendList(dst, data, func(dst []byte, four [4]any) []byte { return appendList(dst, four[:], appendJSON) })
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Errorf("a field's value cannot be encoded: %w", err)) // the value came from JSON
	}
	return append(dst, encoded...)
}

func appendList[E any](dst []byte, list []E, element func([]byte, E) []byte) []byte {
	dst = append(dst, '[')
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, e)
	}
	return append(dst, ']')
}

func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(dst, rawjson.Quote(s)...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
