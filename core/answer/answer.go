// Package answer defines the answers of lockstep's own calls, once for all who make or
// read them: the LUXI methods whose names begin with Lockstep, and the resources below /3
// of the remote API, which pass them on. The actors fill them, the gateway encodes them,
// the command line and the remote API decode them. A tag names a key on the wire, and
// fields stand in the order of their keys there. The package decides nothing and keeps
// nothing.
package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Time is a point in time in an answer to a client. On the wire it is [seconds, microseconds], or null for none.
type Time struct{ time.Time }

// TimeOf converts microseconds since 1970, the unit of messages, into a Time; 0 means no time.
func TimeOf(us int64) Time {
	if us == 0 {
		return Time{}
	}
	return Time{time.UnixMicro(us)}
}

// MarshalJSON writes [seconds, microseconds] since 1970, or null for the zero time.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	us := t.UnixMicro()
	return json.Marshal([2]int64{us / 1e6, us % 1e6})
}

// UnmarshalJSON reads [seconds, microseconds]. null and an empty list give the zero time.
func (t *Time) UnmarshalJSON(data []byte) error {
	var parts []int64
	if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("decode the timestamp %s: %w", data, err)
	}
	switch len(parts) {
	case 0:
		t.Time = time.Time{}
	case 2:
		t.Time = time.Unix(parts[0], parts[1]*int64(time.Microsecond))
	default:
		return fmt.Errorf("timestamp %s has %d parts", data, len(parts))
	}
	return nil
}

// encode is json.Marshal without escapes for HTML. The encoder of the complete answer decides whether to escape.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimRight(buffer.Bytes(), "\n"), err
}
