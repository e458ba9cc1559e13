package rapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"lockstep/core/wire"
)

// withTimes adds to each key_ts (seconds and microseconds since 1970), at any depth, a key
// without _ts with the time in RFC 3339. Answers below /3 have both.
func withTimes(answer raw, err error) (any, error) {
	return rendered(func() (any, error) { return decodeWithTimes(answer) }), err
}

func decodeWithTimes(answer raw) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, &wire.MalformedResponse{Err: err}
	}
	addTimes(value)
	return value, nil
}

func addTimes(value any) {
	switch value := value.(type) {
	case []any:
		for _, inner := range value {
			addTimes(inner)
		}
	case map[string]any:
		twins := map[string]any{}
		for key, inner := range value {
			addTimes(inner)
			name, isTime := strings.CutSuffix(key, "_ts")
			if _, exists := value[name]; isTime && !exists {
				twins[name] = rfc3339(inner)
			}
		}
		for name, twin := range twins {
			value[name] = twin
		}
	}
}

// rfc3339 converts [seconds, microseconds] since 1970 to a text. It returns nil for a value that is no time.
func rfc3339(value any) any {
	pair, ok := value.([]any)
	if !ok || len(pair) != 2 {
		return nil
	}
	var parts [2]int64
	for i := range pair {
		number, ok := pair[i].(json.Number)
		if !ok {
			return nil
		}
		var err error
		if parts[i], err = number.Int64(); err != nil {
			return nil
		}
	}
	return time.Unix(parts[0], parts[1]*1000).UTC().Format(time.RFC3339Nano)
}
