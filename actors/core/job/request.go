package job

import (
	"bytes"
	"encoding/json"
)

// RequestSource is the source of the entry in the reason trail of a job's first
// opcode by which a client names its submission: one that comes twice, because its
// answer was lost, makes its jobs once. All jobs of a submission have the entry.
const RequestSource = "lockstep:request"

// requestMax bounds the name of a submission, in bytes.
const requestMax = 200

// RequestName is what the client calls the submission that the opcode belongs to,
// the first of its job; "" if it does not say, or not in a form that counts.
func RequestName(input json.RawMessage) string {
	if !bytes.Contains(input, []byte(RequestSource)) {
		return ""
	}
	var op struct {
		Reason [][]json.RawMessage `json:"reason"`
	}
	if json.Unmarshal(input, &op) != nil {
		return ""
	}
	for _, entry := range op.Reason {
		var source, name string
		if len(entry) < 2 || json.Unmarshal(entry[0], &source) != nil || source != RequestSource {
			continue
		}
		if json.Unmarshal(entry[1], &name) == nil && len(name) <= requestMax {
			return name
		}
	}
	return ""
}
