package record

import "encoding/json"

// submitterKey has the user to whom the job belongs, as access.Submitter encodes it: {"uid": 1000, "name": "alice"}. A job without it
// belongs to the daemon's user.
const submitterKey = "submitter"

// Submitter is the user to whom the job belongs, for access.DecodeSubmitter; nil: the daemon's user.
func (r Record) Submitter() []byte { return r.members[submitterKey] }

// WithSubmitter returns the record of a job of another user than the daemon's.
func (r Record) WithSubmitter(submitter []byte) Record {
	return r.with(submitterKey, json.RawMessage(submitter))
}
